// Primitives between processes of one host through memory.
#include <unistd.h>

#include <cstring>

#include "cma.h"
#include "kernels.h"
#include "primitives.h"
#include "ring.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;

double microseconds(double s) { return s * 1e6; }

std::function<double(double)> gigabytes_per_second(size_t bytes) {
  return [bytes](double s) { return static_cast<double>(bytes) / s * 1e-9; };
}

// Private, aligned memory that has been written to.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : data_(nullptr, std::free) {
    void* block = nullptr;
    if (posix_memalign(&block, 4096, bytes) != 0) std::abort();
    std::memset(block, 0, bytes);
    data_.reset(static_cast<float*>(block));
  }
  float* get() const { return data_.get(); }

 private:
  std::unique_ptr<float, void (*)(void*)> data_;
};

// The scheme in place `choice` of those that fit `bytes`, as a primitive: on zeros, results not looked at.
bool run_scheme(Bench& bench, Team& team, Samples* samples, Schemes& all, size_t bytes, size_t choice) {
  std::vector<Scheme*> fitting;
  for (const auto& s : all) {
    if (s->fits(bytes)) fitting.push_back(s.get());
  }
  Scheme& scheme = *fitting.at(choice);
  const Buffer in(std::max<size_t>(bytes, kLine)), out(std::max<size_t>(bytes, kLine));
  const auto batch = [&](int k) {
    for (int i = 0; i < k; i++) {
      if (!scheme.run(in.get(), out.get(), bytes / sizeof(float))) return false;
    }
    return true;
  };
  return bench.sample(team, samples, batch, microseconds);
}

struct alignas(128) Line {
  std::atomic<uint32_t> sequence;
  uint32_t payload[15];
};

// One line each way and nothing else: the payload is one word, looked at so that the whole line must arrive.
bool exchange_lines(Bench& bench, Team& team, Samples* samples, uint32_t depth) {
  Line* lines[2] = {team.take<Line>(depth), team.take<Line>(depth)};
  uint32_t sequence = 0, wrong = 0;
  const auto batch = [&](int k) {
    for (int i = 0; i < k; i++) {
      Line& mine = lines[team.rank][++sequence % depth];
      Line& theirs = lines[1 - team.rank][sequence % depth];
      mine.payload[0] = sequence;
      mine.sequence.store(sequence, std::memory_order_release);
      wait_for(theirs.sequence, sequence, team.crowded);
      wrong += theirs.payload[0] != sequence;
    }
    return wrong == 0;
  };
  return bench.sample(team, samples, batch, microseconds);
}

std::string kib(size_t bytes) { return std::to_string(bytes / kKiB) + " KiB"; }

bool measure_stream(Bench& bench, const std::string& name, int ranks, size_t bytes,
                    const std::function<void(float*, const float*, const float*, size_t)>& loop) {
  return bench.run(name, "GB/s", ranks, [&](Team& team, Samples* samples) {
    const Buffer out(bytes), a(bytes), b(bytes);
    const auto batch = [&](int k) {
      for (int i = 0; i < k; i++) loop(out.get(), a.get(), b.get(), bytes / sizeof(float));
      return true;
    };
    return bench.sample(team, samples, batch, gigabytes_per_second(bytes));
  });
}

bool measure_slot(Bench& bench, SlotShape shape, Store how) {
  constexpr size_t kBytes = 2048 * kKiB;
  const std::string name = "slot transfer, " + std::to_string(shape.depth) + " x " + kib(shape.bytes) +
                           (how == kPast ? ", past the cache" : "");
  return bench.run(name, "GB/s", 2, [&](Team& team, Samples* samples) {
    RingMemory* memory = team.take<RingMemory>();
    const Buffer mine(kBytes);
    RingWriter tx(memory, shape, team.crowded);
    RingReader rx(memory, shape, team.crowded);
    const size_t floats = shape.bytes / sizeof(float);
    // Both sides count a batch as over when the reader has all of it.
    Meeting over(team);
    const auto batch = [&](int k) {
      for (size_t i = 0; i < static_cast<size_t>(k) * (kBytes / shape.bytes); i++) {
        float* at = mine.get() + i % (kBytes / shape.bytes) * floats;
        if (team.rank == 0) {
          copy(tx.begin(), at, floats, how);
          tx.end();
        } else {
          copy(at, rx.begin(), floats, kCached);
          rx.end();
        }
      }
      over.meet();
      return true;
    };
    return bench.sample(team, samples, batch, gigabytes_per_second(kBytes));
  });
}

bool measure_cma_of(Bench& bench, size_t bytes, bool both) {
  const std::string name = std::string("process_vm_readv of ") + kib(bytes) + (both ? ", both ways at once" : "");
  return bench.run(name, "GB/s", 2, [&](Team& team, Samples* samples) {
    struct Card {
      Flag shown;
      pid_t pid;
      float* data;
    };
    Card* cards = team.take<Card>(2);
    const Buffer theirs(bytes), mine(bytes);
    if (!cma_works(team)) {
      std::fprintf(stderr, "floors: process_vm_readv is not allowed between processes here\n");
      return false;
    }
    cards[team.rank].pid = getpid();
    cards[team.rank].data = mine.get();
    Meeting meeting(team);
    meeting.meet();
    const Card& peer = cards[1 - team.rank];
    const auto batch = [&](int k) {
      for (int i = 0; i < k && (both || team.rank == 0); i++) {
        if (!cma_read(peer.pid, theirs.get(), peer.data, bytes / sizeof(float))) return false;
      }
      return true;
    };
    return bench.sample(team, samples, batch, gigabytes_per_second(bytes)) && (meeting.meet(), true);
  });
}

}  // namespace

bool measure_exchange(Bench& bench) {
  bool good = true;
  for (const uint32_t depth : {2u, 8u}) {
    good = good && bench.run("cache-line exchange, " + std::to_string(depth) + " lines in turn", "us", 2,
                             [&](Team& team, Samples* s) { return exchange_lines(bench, team, s, depth); });
  }
  for (const size_t bytes : {size_t{8}, size_t{56}, size_t{256}, 1 * kKiB}) {
    good = good && bench.run("exchange, copy and add of " + std::to_string(bytes) + " bytes", "us", 2,
                             [&](Team& team, Samples* s) {
                               Schemes all;
                               add_message_schemes(team, all);
                               return run_scheme(bench, team, s, all, bytes, 0);
                             });
  }
  return good;
}

bool measure_barriers(Bench& bench) {
  static const char* const kNames[] = {"a flag for each rank", "central counter, sched_yield",
                                       "central counter, futex"};
  bool good = true;
  for (const int ranks : {2, 4, 8}) {
    for (size_t kind = 0; kind < 3; kind++) {
      good = good && bench.run("barrier of " + std::to_string(ranks) + ", " + kNames[kind], "us", ranks,
                               [&](Team& team, Samples* s) {
                                 Schemes all;
                                 Meeting meeting(team);
                                 add_barrier_schemes(team, all, meeting);
                                 return run_scheme(bench, team, s, all, 0, kind);
                               });
    }
  }
  return good;
}

bool measure_memory(Bench& bench) {
  bool good = true;
  for (const size_t bytes : {16 * kKiB, 1024 * kKiB, 64 * 1024 * kKiB}) {
    for (const int processes : {1, 2}) {
      for (const Store how : {kCached, kPast}) {
        const std::string of =
            " of " + kib(bytes) + (processes == 2 ? ", 2 processes" : "") + (how == kPast ? ", past the cache" : "");
        good =
            good && measure_stream(bench, "copy" + of, processes, bytes,
                                   [how](float* out, const float* a, const float*, size_t n) { copy(out, a, n, how); });
        good = good && measure_stream(bench, "add" + of, processes, bytes,
                                      [how](float* out, const float* a, const float* b, size_t n) {
                                        kernels().add[how](out, a, b, n);
                                        kernels().fence();
                                      });
      }
    }
  }
  return good;
}

bool measure_slots(Bench& bench) {
  bool good = true;
  for (const size_t bytes : {16 * kKiB, 64 * kKiB, 256 * kKiB, 512 * kKiB}) {
    for (const uint32_t depth : {2u, 4u, 8u}) {
      for (const Store how : {kCached, kPast}) good = good && measure_slot(bench, {bytes, depth}, how);
    }
  }
  return good;
}

bool measure_cma(Bench& bench) {
  bool good = true;
  for (const size_t bytes : {64 * kKiB, 1024 * kKiB, 16 * 1024 * kKiB}) {
    for (const bool both : {false, true}) good = good && measure_cma_of(bench, bytes, both);
  }
  return good;
}

}  // namespace floors
