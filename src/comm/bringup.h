// Bring-up: from "who am I and where do we meet" to a communicator whose links can be opened. One deadline for all of
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/unique_id.h"
#include "comm/communicator.h"
#include "transport/tcp/wire.h"

namespace hocket {

// What the caller has set; what is not set comes from the environment.
struct CommSettings {
  std::optional<int64_t> init_timeout_ms;       // HOCKET_INIT_TIMEOUT
  std::optional<int64_t> timeout_ms;            // HOCKET_TIMEOUT
  std::optional<std::string> transport;         // HOCKET_TRANSPORT
  std::optional<std::string> algo;              // HOCKET_ALGO; equal on all ranks
  std::optional<hktDeterminism_t> determinism;  // HOCKET_DETERMINISM; equal on all ranks
  std::optional<std::string> progress;          // HOCKET_PROGRESS
  std::optional<std::string> host_id;           // HOCKET_HOST_ID
  std::optional<RingGeometry>
      geometry;  // of all links; equal on all ranks. For tests: small slots reach many rounds soon
  std::optional<tcp::Striping> striping;  // HOCKET_NSOCKS_PERPEER. For tests: small messages that are shared out
};

// The geometry of every link of a communicator where the settings do not say: by the number of its ranks, and whether
// all of them share memory.
enum class Memory : uint8_t { shared, apart };
RingGeometry geometry_for(int nranks, Memory memory);

// The deadline of a bring-up that begins now.
Result<Deadline> init_deadline(const CommSettings& settings);

// Exchanges addresses over `rendezvous`, maps shared memory with the ranks of this host, and makes the communicator.
// All ranks call it; on an error nothing is left behind.
Result<std::unique_ptr<Communicator>> bring_up(Rendezvous& rendezvous, const CommSettings& settings, Deadline deadline);

}  // namespace hocket
