// Teller: tells ranks that this one has no connection with of the fault of their communicator, each on a connection
// made for that alone: a hello (Purpose::tell) and one fault frame. Both lie with the other rank's kernel until that
// rank looks at its port. So it hears of the fault whenever it comes, even if this process has ended by then. Nothing
// here blocks. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "transport/tcp/connector.h"

namespace hocket::tcp {

class Teller {
 public:
  struct Listener {
    int rank = -1;
    std::vector<Way> ways;  // tried in order
  };
  // `to` are told in this order, a few at a time.
  Teller(const Connector::Config& config, const Fault& fault, std::vector<Listener> to);

  // Connects and sends as far as that goes at once.
  void progress();
  // All have been told whose kernels answer.
  bool done() const { return talks_.empty() && next_ == listeners_.size(); }
  // When progress() has something to do, but for acknowledgements, which wake nobody.
  void poll_set(std::vector<pollfd>& fds) const;

 private:
  static constexpr size_t kAtOnce = 32;  // descriptors
  struct Talk {
    Listener* to;
    size_t way = 0;  // being tried
    Fd fd;
    int64_t since = 0;
    bool said = false;  // but not yet acknowledged
  };
  // False: nobody is left to talk to.
  bool start(Talk& talk, int64_t now);
  bool advance(Talk& talk, int64_t now);

  const LogId log_;
  std::vector<Listener> listeners_;
  size_t next_ = 0;  // not yet talked to
  std::vector<Talk> talks_;
  std::string bytes_;  // what is said
};

}  // namespace hocket::tcp
