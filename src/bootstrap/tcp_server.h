// The server of the TCP store: one thread with epoll, for the time of one bring-up.
//
// It holds the keys of one job and knows nothing of what they mean. Anybody may connect to its port: who does not send
// a valid hello within Options::greeting_ms is dropped, about kMaxStrangers wait at a time (the oldest makes room),
// and a stranger costs no more than a hello, with a secret also the
// state of a proof. A rank counts as member from its first request on; a member whose
// connection ends without a bye has died, which fails the job for all others.
//
// It is over when all members have left; after an error it stays until all ranks of the job were told, or for a time: a
// minute for a unique id; kLingerMs at a tcp:// place, where nobody is waited for any more if the error is a timeout.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/secret.h"
#include "base/socket.h"
#include "bootstrap/tcp_protocol.h"

namespace hocket {

class TcpServer {
 public:
  struct Options {
    uint64_t nonce = 0;      // what a hello must carry
    uint32_t nranks = 0;     // 0: as the first hello has it
    int greeting_ms = 5000;  // time for a hello
    uint16_t wire_version = tcp_protocol::kWireVersion;
    SharedSecret secret = {};  // what all but members must prove to know; null: none
  };
  static constexpr size_t kMaxStrangers = 128;  // and some per rank

  // Serves `listeners` (which may be none) and `members`: sockets whose other end is a client of this process.
  static Result<std::unique_ptr<TcpServer>> start(std::vector<Fd> listeners, std::vector<Fd> members,
                                                  const Options& options);
  // The same for nobody in particular: the thread ends with its job, or with the process.
  static Status start_detached(std::vector<Fd> listeners, const Options& options);

  // Stops at once, whoever is still connected.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // Waits until the server is over; false if the deadline came first.
  bool wait_over(Deadline deadline);

 private:
  TcpServer() = default;
  Fd stop_;  // closed to stop the thread
  Fd over_;  // its other end is closed by the thread when it is over
  std::thread thread_;
};

}  // namespace hocket
