// What the TCP store's server knows of a connection, a key and a series of keys. Part of its implementation
// (tcp_server.cc); only its thread touches them.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/proof.h"
#include "base/socket.h"

namespace hocket::tcp_server {

struct Series;

struct Connection {
  enum class State : uint8_t {
    greeting,  // no valid hello yet
    open,      // said hello; a member from its first request on
    refused,   // gets its welcome and nothing else
  };
  Fd fd;
  std::string peer;
  State state = State::greeting;
  std::optional<Handshake> proof;  // while it has to prove that it knows the job's secret
  uint32_t rank = 0;
  bool member = false;
  bool local = false;  // its other end is in this process
  Deadline greeting = Deadline::never();
  std::string in;
  std::shared_ptr<const std::string> out;  // null: nothing to send; one reply may go to many
  size_t sent = 0;
  uint32_t armed = 0;  // events that epoll reports
  // A get that waits for keys, or an exchange that waits for the first `count` of a series.
  std::vector<std::string> keys;
  size_t absent = 0;
  Series* series = nullptr;
  size_t count = 0;
  Deadline timeout = Deadline::never();
  bool waiting() const { return absent > 0 || series != nullptr; }
};

// The keys prefix/0, prefix/1, ... that some wait for together.
struct Series {
  std::string prefix;
  size_t here = 0;  // so many, from the first on, exist
  std::vector<Connection*> waiters;
  // The reply to whoever wants the first `packed` of them.
  std::shared_ptr<const std::string> reply;
  size_t packed = 0;
  std::string key(size_t index) const { return prefix + "/" + std::to_string(index); }
};

struct Key {
  bool exists = false;
  std::string value;
  std::vector<Connection*> waiters;
};

// Ends it for the other side even if a child process holds a copy of the descriptor, as after a fork without exec; then
// epoll would report it on, too.
inline void end_connection(int epoll, Fd& fd) {
  if (!fd) return;
  epoll_ctl(epoll, EPOLL_CTL_DEL, fd.get(), nullptr);
  shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

}  // namespace hocket::tcp_server
