// Roster: what a rank knows of all ranks of its communicator since bring-up, and what the communicators made from it
// share with it. Communicators made from others take theirs from their parent's, so that nothing is asked twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/secret.h"
#include "engine/wait.h"
#include "schedule/step.h"
#include "select/facts.h"
#include "transport/link.h"
#include "transport/shm/segment.h"
#include "transport/tcp/tcp_transport.h"

namespace hocket {

struct Parts;

// The links of a pair of ranks: those of plans, one for point-to-point messages (p2p.h), and a small one for exchanges
// between calls (exchange.h).
inline constexpr uint16_t kPointTag = kMaxTags;
inline constexpr uint16_t kExchangeTag = kMaxTags + 1;
inline constexpr uint16_t kLinkTags = kMaxTags + 2;

// One rank, as all others know it. The same in every communicator that it is in.
struct Mate {
  std::string host;     // ranks with equal ids may share memory; trying tells
  uint64_t token = 0;   // of the process
  CpuShare cpus;        // usable by this rank
  uint64_t cache = 0;   // last-level cache, bytes
  int32_t pid = 0;      // as itself sees it
  int memory = 0;       // ranks with equal numbers have mapped one file
  int seat = 0;         // in that file
  std::string contact;  // Port::contact(), empty if no rank needs TCP
};

struct Roster {
  std::vector<std::shared_ptr<const Mate>> mates;  // by rank
  std::string transport = "auto";                  // asked for at bring-up
  RingGeometry geometry;                           // of the links of plans
  tcp::Striping striping;
  select::Costs costs;  // those of rank 0 of the first communicator
  shm::Backing backing = shm::Backing::memfd;
  bool readable = false;            // ranks that share memory can read one another's private memory
  std::shared_ptr<shm::File> file;  // null: this rank shares no memory
  std::shared_ptr<tcp::Port> port;  // null: no rank needs TCP
  SharedSecret secret;              // of the job; null: it has none

  const Mate& mate(int rank) const { return *mates[static_cast<size_t>(rank)]; }
  // The ranks that share memory with `rank`, itself included, ascending.
  std::vector<int> group_of(int rank) const;
  // The processes of these ranks as the links of `rank` name them (Link::Setup).
  std::vector<int32_t> processes(const std::vector<int>& group, int rank) const;
};

// Settings of the transports of `parts`, whose rank, nranks, nonce, epoch and fence are set.
shm::GroupConfig shm_config(const Roster& roster, const Parts& parts);
tcp::Config tcp_config(const Roster& roster, const Parts& parts);

// What follows from a roster for selection and waiting: facts, costs, local_ranks, cpus.
void look_up_facts(const Roster& roster, Parts& parts);

// A communicator's epoch follows from its nonce.
inline uint32_t epoch_of(uint64_t nonce) { return static_cast<uint32_t>(nonce ^ (nonce >> 32)) | 1; }

}  // namespace hocket
