// What a choice depends on. Identical on all ranks: agreed at bring-up.
#pragma once

#include <array>
#include <cstdint>

namespace hocket::select {

struct Facts {
  uint32_t nranks = 1;
  uint32_t hosts = 1;           // groups of ranks that share memory
  bool oversubscribed = false;  // some host has more ranks than usable CPUs
  bool registered = false;      // every rank has memory that all others can reach
  bool readable = false;        // ranks that share memory can read one another's private memory
  uint32_t slot_bytes = 0;      // payload capacity of every link
  uint64_t cache_bytes = 0;     // smallest last-level cache among the hosts
  uint32_t depth = 8;           // messages that every link holds
  uint32_t machines = 1;        // with CPUs of their own; ranks that share no memory may still share CPUs
  uint32_t cpus = 1;            // usable by the ranks of a machine together, the fewest
};

// How large messages go between ranks that share memory: in slots, or read from where they lie if the planner has such
// a way (algorithms/zero_copy.h).
enum class Way : uint8_t { copying, reading };
// A message of fewer bytes is copied to its slot even where larger ones are read.
inline constexpr uint64_t kReadFrom = 16 * 1024;

// What things cost on the machine at hand, as predict.h counts them. Whole numbers, so that all ranks compute the same:
// times in picoseconds, of data in picoseconds per KiB, sizes in KiB. The values here are those without a tune file;
// only their ratios matter for the choice. They were fitted to measurements of 2, 4 and 8 ranks on 2 CPUs (Xeon,
// Sapphire Rapids) by `hocket tune`.
struct Costs {
  uint64_t step = 60'000;       // a step, whatever it moves
  uint64_t message = 21'000;    // each message that it pops or pushes
  uint64_t cross = 34'000;      // moreover each one popped that another CPU pushed
  uint64_t line = 92'000;       // until another CPU sees what was done
  uint64_t turn = 790'000;      // from one rank to the next on the same CPU
  uint64_t near = 16'600;       // a KiB of an operand or a target that is in the CPU's cache
  uint64_t mid = 35'000;        // the same where the cache is too small for all that is touched
  uint64_t far = 72'000;        // the same where the next level is, too
  uint64_t pull = 24'000;       // a KiB popped that another CPU pushed, in place of near
  uint64_t push = 55'000;       // a KiB pushed that another CPU pops, in place of near
  uint64_t first = 130'000;     // moreover each of the first 4 KiB popped of a message that the CPU was waiting for
  uint64_t cache_kib = 5'180;   // of a CPU
  uint64_t outer_kib = 51'000;  // a CPU's part of what is beyond
  uint64_t socket = 2'300'000;  // a message over TCP, for each end; also what a look at the sockets costs in a turn
  uint64_t socket_kib = 105'000;
  uint64_t wire = 50'000;        // until it is there: on loopback
  uint64_t fetch = 800'000;      // a message read from another rank's memory, a system call
  uint64_t fetch_kib = 125'000;  // a KiB of it from another CPU

  friend bool operator==(const Costs&, const Costs&) = default;
};

struct CostField {
  const char* name;
  uint64_t Costs::*field;
};
inline constexpr std::array<CostField, 18> kCostFields = {{{"step", &Costs::step},
                                                           {"message", &Costs::message},
                                                           {"cross", &Costs::cross},
                                                           {"line", &Costs::line},
                                                           {"turn", &Costs::turn},
                                                           {"near", &Costs::near},
                                                           {"mid", &Costs::mid},
                                                           {"far", &Costs::far},
                                                           {"pull", &Costs::pull},
                                                           {"push", &Costs::push},
                                                           {"first", &Costs::first},
                                                           {"cache_kib", &Costs::cache_kib},
                                                           {"outer_kib", &Costs::outer_kib},
                                                           {"socket", &Costs::socket},
                                                           {"socket_kib", &Costs::socket_kib},
                                                           {"wire", &Costs::wire},
                                                           {"fetch", &Costs::fetch},
                                                           {"fetch_kib", &Costs::fetch_kib}}};
static_assert(sizeof(Costs) == kCostFields.size() * sizeof(uint64_t), "every cost has a name");
// Every cost is from 1 to this: no sum of a prediction overflows.
inline constexpr uint64_t kMostCost = 1'000'000'000;

}  // namespace hocket::select
