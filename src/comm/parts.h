// What bring-up hands to a communicator: who it is, how it reaches the others, how long it waits. Plain data; the
// communicator owns it. Also made by tests from any transports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "select/select.h"
#include "transport/transport.h"

namespace hocket {

struct Roster;

struct Parts {
  int rank = 0;
  int nranks = 1;
  uint64_t nonce = 0;        // the communicator's secret, another one for each
  uint32_t epoch = 1;        // follows from it, part of every signature: messages of another communicator never match
  uint32_t local_ranks = 1;  // ranks on this host, for the waiting ladder
  uint32_t cpus = 1;         // CPUs that these ranks may use together
  int64_t timeout_ms = 600'000;
  bool progress_thread = false;  // HOCKET_PROGRESS=thread
  Fence fence = Fence::full;
  select::Facts facts;
  select::Costs costs;
  std::string algo;                   // HOCKET_ALGO
  bool mapped = true, direct = true;  // HOCKET_PROTO: ways that messages of registered memory may take
  bool always_read = false;           // HOCKET_PROTO=cma: whatever can be read stays where it is
  hktDeterminism_t determinism = HKT_DETERMINISM_R1;
  std::unique_ptr<Doorbell> own_bell;                  // when no transport brings one
  Doorbell* bell = nullptr;                            // this rank's
  std::vector<std::unique_ptr<Transport>> transports;  // in the order they were preferred
  std::vector<Transport*> route;                       // by rank: the transport that reaches it, null for oneself
  std::shared_ptr<const Roster> roster;                // null: no communicator can be made from this one
};

}  // namespace hocket
