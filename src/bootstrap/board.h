// Board: where a launcher lets rank 0 put up one short notice that the other ranks read: how to reach it. All the rest
// of bring-up goes over the TCP store that rank 0 then serves, whoever launched.
//
// One thread per object. Notices are printable and without spaces, at most kMaxNotice bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/identity.h"

namespace hocket {

class Board {
 public:
  static constexpr size_t kMaxNotice = 512;
  // -1: the board does not know.
  struct Seat {
    int rank = -1;
    int nranks = -1;
  };

  virtual ~Board() = default;

  // What the launcher's server says of this process.
  virtual Seat seat() const { return {}; }
  // A board that can be used once per process, and was: the notice of then, which rank 0 has to stand by.
  virtual std::optional<std::string> earlier() const { return std::nullopt; }
  // Rank 0.
  virtual Status post(const std::string& notice, Deadline deadline) = 0;
  // The others wait for the notice; asked again when the one they got has proven to be old. hktTimeout says what was
  // waited for.
  virtual Result<std::string> read(Deadline deadline) = 0;
};

// Each is connected when it comes back. `me` is for keys and messages.
Result<std::unique_ptr<Board>> open_torch_board(const TorchPlace& place, const Identity& me, Deadline deadline);
// The same on a connection that stands.
Result<std::unique_ptr<Board>> greet_torch_board(Fd fd, const TorchPlace& place, const Identity& me, Deadline deadline);
Result<std::unique_ptr<Board>> open_pmi_board(const PmiPlace& place, const Identity& me, Deadline deadline);
Result<std::unique_ptr<Board>> open_pmix_board(const Identity& me, Deadline deadline);
Result<std::unique_ptr<Board>> open_horovod_board(const HorovodPlace& place, const Identity& me, Deadline deadline);

// For tests: as if this process had not used its session of PMI.
void forget_pmi_session();

// A connection to a server that a launcher promises: tries all addresses of `where`, again until the deadline. `what`
// is for messages: "torchrun's store".
Result<Fd> connect_to_server(const HostPort& where, const char* what, Deadline deadline);

}  // namespace hocket
