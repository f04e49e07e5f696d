// Sockets without their traps: every descriptor is close-on-exec and non-blocking, nothing raises SIGPIPE, EINTR is
// handled, and every wait has a deadline. Free functions; one thread per descriptor unless said otherwise.
//
// Error codes: hktRemoteError when the other side closed, refused or cannot be reached (a caller may try again),
// hktTimeout when the deadline passed, hktInvalidArgument for an address that does not parse, hktSystemError for
// everything local. A process out of file descriptors gets a text that says so, with the limit and the fix.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"

namespace hocket {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

enum class Family : uint8_t { any, v4, v6 };

// HOCKET_SOCKET_FAMILY, or what HCCL and NCCL call so (network_env.h).
Result<Family> socket_family();

// An IPv4 or IPv6 address with its port. A value.
class Address {
 public:
  Address() = default;                                    // no address
  Address(const sockaddr* address, size_t size);          // no address when the family is another one
  static Address loopback(Family family, uint16_t port);  // `family` is v4 or v6
  static Address wildcard(Family family, uint16_t port);  // the v6 one takes IPv6 only

  bool valid() const { return size_ != 0; }
  Family family() const;
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  bool is_wildcard() const;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  std::string text() const;  // "10.0.0.1:80", "[fe80::1%eth0]:80"
  std::string host() const;  // without the port: "10.0.0.1", "fe80::1%eth0"
  friend bool operator==(const Address& a, const Address& b);

  // For the wire: 1 byte family, 2 bytes port, 4 or 16 bytes address. A link-local address loses its interface, so do
  // not send one. `decode` takes an address off the front of `bytes`; nothing if there is none.
  std::string encode() const;
  static std::optional<Address> decode(std::string_view& bytes);

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// "host:port", "1.2.3.4:port", "[v6]:port"; ports from 1 to 65535. The error says what is wrong.
Result<HostPort> parse_host_port(std::string_view text);

// All addresses of a name or a literal, of the given family, without duplicates, in the resolver's order. Names are
// looked up by getaddrinfo, which has timeouts of its own and heeds no deadline. hktRemoteError if the name is unknown
// (it may become known later: a host that starts), hktInvalidArgument if a literal is of another family.
Result<std::vector<Address>> resolve(const HostPort& where, Family family);

// A listening socket; port 0 takes a free one (see local_address). A port that is taken is hktInvalidUsage.
Result<Fd> listen_on(const Address& where, int backlog = 1024);
// The next connection, or an empty Fd when none waits.
Result<Fd> accept_on(int listener, Address* peer = nullptr);

// A connection under way, bound to `source` (any port) if given: wait until it is writable, then ask finish_connect.
Result<Fd> start_connect(const Address& to, const Address* source = nullptr);
Status finish_connect(int fd, const Address& to);
Result<Fd> connect_to(const Address& to, Deadline deadline, const Address* source = nullptr);

Result<Address> local_address(int fd);
Result<Address> peer_address(int fd);

// Two connected stream sockets of this process.
Result<std::pair<Fd, Fd>> socket_pair();

// What can be moved at once: the number of bytes, 0 if it would block (or n is 0). A closed connection is
// hktRemoteError for both. At most 1 GiB per call.
Result<size_t> send_some(int fd, const void* data, size_t n);
Result<size_t> recv_some(int fd, void* data, size_t n);

Status send_all(int fd, const void* data, size_t n, Deadline deadline);
Status recv_all(int fd, void* data, size_t n, Deadline deadline);

// Waits for poll events (POLLIN, POLLOUT); false when the deadline passed. Errors of the socket count as ready.
Result<bool> wait_ready(int fd, short events, Deadline deadline);

// The error of a failed call that makes descriptors, from errno: "<what>: ...".
Error descriptor_error(const std::string& what);

}  // namespace hocket
