#include "base/socket.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/env.h"
#include "base/network_env.h"
#include "base/pacing.h"
#include "base/text.h"

namespace hocket {
namespace {

const sockaddr_in& as_v4(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in&>(s); }
const sockaddr_in6& as_v6(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in6&>(s); }

std::string errno_text(int number) {
  char text[128];
  return strerror_r(number, text, sizeof text);
}

// Failures that lie with the other side or the way to it.
bool is_remote(int number) {
  switch (number) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENOTCONN:
      return true;
    default:
      return false;
  }
}

Error remote_or_system(const std::string& what, int number) {
  if (is_remote(number)) return error(hktRemoteError, "%s: %s", what.c_str(), errno_text(number).c_str());
  errno = number;
  return descriptor_error(what);
}

// Both ends of a connection fill and empty it in bursts. A receive window that the kernel adapts to the reader's pace
// is for some connections, for good, so small that the sender waits within each burst (half the speed). A fixed one is
// not adapted, and must be set before the connection is made. Where the system does not allow as much it is better left
// alone: it would be fixed to what is allowed.
void set_receive_window(int fd) {
  constexpr int kWindow = 4 << 20;  // bytes; several times what a link's credit lets be in flight
  static const bool allowed = [] {
    long most = 0;
    if (std::FILE* f = std::fopen("/proc/sys/net/core/rmem_max", "re")) {
      if (std::fscanf(f, "%ld", &most) != 1) most = 0;
      std::fclose(f);
    }
    return most >= kWindow;
  }();
  if (allowed) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kWindow, sizeof kWindow);
}

Result<Fd> make_socket(const Address& address) {
  Fd fd(socket(address.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return descriptor_error("cannot make a socket for " + address.text());
  set_receive_window(fd.get());
  do_not_pace(fd.get());
  return fd;
}

// Small messages leave at once: everything here is a request and its answer.
void set_nodelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

void Fd::reset(int fd) {
  // close() must not be repeated after EINTR: the descriptor is gone and may belong to another thread by then.
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Error descriptor_error(const std::string& what) {
  const int number = errno;
  if (number == EMFILE) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return error(hktSystemError,
                 "%s: this process has no file descriptor left (the limit is %llu): raise it, e.g. `ulimit -n %llu`",
                 what.c_str(), static_cast<unsigned long long>(limit.rlim_cur),
                 static_cast<unsigned long long>(std::max<rlim_t>(4096, limit.rlim_cur * 2)));
  }
  if (number == ENFILE) {
    return error(hktSystemError,
                 "%s: this host has no file descriptor left (fs.file-max): raise it with sysctl or end other processes",
                 what.c_str());
  }
  return error(hktSystemError, "%s: %s", what.c_str(), errno_text(number).c_str());
}

Address::Address(const sockaddr* address, size_t size) {
  const bool v4 = address->sa_family == AF_INET && size >= sizeof(sockaddr_in);
  const bool v6 = address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6);
  if (!v4 && !v6) return;
  size_ = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&storage_, address, size_);
}

Address Address::wildcard(Family family, uint16_t port) {
  if (family == Family::v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_any;
    v6.sin6_port = htons(port);
    return Address(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_ANY);
  v4.sin_port = htons(port);
  return Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
}

Address Address::loopback(Family family, uint16_t port) {
  Address address = wildcard(family, port);
  if (family == Family::v6) {
    reinterpret_cast<sockaddr_in6&>(address.storage_).sin6_addr = in6addr_loopback;
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage_).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  return address;
}

Family Address::family() const {
  if (!valid()) return Family::any;
  return storage_.ss_family == AF_INET ? Family::v4 : Family::v6;
}

uint16_t Address::port() const {
  return ntohs(family() == Family::v6 ? as_v6(storage_).sin6_port : as_v4(storage_).sin_port);
}

void Address::set_port(uint16_t port) {
  if (family() == Family::v6) {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  }
}

bool Address::is_loopback() const {
  if (family() == Family::v6) return IN6_IS_ADDR_LOOPBACK(&as_v6(storage_).sin6_addr);
  return valid() && (ntohl(as_v4(storage_).sin_addr.s_addr) >> 24) == 127;
}

bool Address::is_wildcard() const {
  if (family() == Family::v6) return IN6_IS_ADDR_UNSPECIFIED(&as_v6(storage_).sin6_addr);
  return valid() && as_v4(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == Family::v4) {
    inet_ntop(AF_INET, &as_v4(storage_).sin_addr, text, sizeof text);
    return text;
  }
  if (!valid()) return "no address";
  inet_ntop(AF_INET6, &as_v6(storage_).sin6_addr, text, sizeof text);
  char name[IF_NAMESIZE];
  const unsigned scope = as_v6(storage_).sin6_scope_id;
  if (scope == 0) return text;
  return std::string(text) + "%" + (if_indextoname(scope, name) != nullptr ? name : std::to_string(scope));
}

std::string Address::text() const {
  if (!valid()) return host();
  const std::string port_text = std::to_string(port());
  return family() == Family::v6 ? "[" + host() + "]:" + port_text : host() + ":" + port_text;
}

bool operator==(const Address& a, const Address& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == Family::any) return true;
  if (a.family() == Family::v4) return as_v4(a.storage_).sin_addr.s_addr == as_v4(b.storage_).sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&as_v6(a.storage_).sin6_addr, &as_v6(b.storage_).sin6_addr) &&
         as_v6(a.storage_).sin6_scope_id == as_v6(b.storage_).sin6_scope_id;
}

std::string Address::encode() const {
  const bool v6 = family() == Family::v6;
  std::string out(1, v6 ? '\6' : '\4');
  out += static_cast<char>(port() >> 8);
  out += static_cast<char>(port() & 255);
  if (v6) {
    out.append(reinterpret_cast<const char*>(&as_v6(storage_).sin6_addr), 16);
  } else {
    out.append(reinterpret_cast<const char*>(&as_v4(storage_).sin_addr), 4);
  }
  return out;
}

std::optional<Address> Address::decode(std::string_view& bytes) {
  if (bytes.size() < 3 || (bytes[0] != '\4' && bytes[0] != '\6')) return std::nullopt;
  const bool v6 = bytes[0] == '\6';
  const size_t size = v6 ? 16 : 4;
  if (bytes.size() < 3 + size) return std::nullopt;
  const auto port =
      static_cast<uint16_t>(static_cast<unsigned char>(bytes[1]) << 8 | static_cast<unsigned char>(bytes[2]));
  Address address = wildcard(v6 ? Family::v6 : Family::v4, port);
  if (v6) {
    std::memcpy(&reinterpret_cast<sockaddr_in6&>(address.storage_).sin6_addr, bytes.data() + 3, size);
  } else {
    std::memcpy(&reinterpret_cast<sockaddr_in&>(address.storage_).sin_addr, bytes.data() + 3, size);
  }
  bytes.remove_prefix(3 + size);
  return address;
}

Result<HostPort> parse_host_port(std::string_view text) {
  HostPort out;
  std::string_view port;
  if (text.substr(0, 1) == "[") {
    const size_t close = text.find(']');
    if (close == std::string_view::npos || text.substr(close + 1, 1) != ":") {
      return error(hktInvalidArgument, "%s is no address: an IPv6 address is written [ADDRESS]:PORT",
                   in_quotes(text).c_str());
    }
    out.host = text.substr(1, close - 1);
    port = text.substr(close + 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
      return error(hktInvalidArgument, "%s has no port: write HOST:PORT", in_quotes(text).c_str());
    }
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (out.host.find(':') != std::string::npos) {
      return error(hktInvalidArgument, "%s has several colons: an IPv6 address is written [ADDRESS]:PORT",
                   in_quotes(text).c_str());
    }
  }
  if (out.host.empty()) return error(hktInvalidArgument, "%s has no host: write HOST:PORT", in_quotes(text).c_str());
  // getaddrinfo would stop at a NUL and look up another name; no host name has spaces or control bytes either.
  for (const char c : out.host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == '/' || c == '@') {
      return error(hktInvalidArgument, "%s is no host name or address", in_quotes(out.host).c_str());
    }
  }
  const std::optional<int64_t> number = parse_int(port);
  if (!number || *number < 1 || *number > 65535) {
    return error(hktInvalidArgument, "port %s of %s is out of range: use 1 to 65535", in_quotes(port).c_str(),
                 in_quotes(text).c_str());
  }
  out.port = static_cast<uint16_t>(*number);
  return out;
}

Result<std::vector<Address>> resolve(const HostPort& where, Family family) {
  addrinfo hints{};
  hints.ai_family = family == Family::any ? AF_UNSPEC : family == Family::v4 ? AF_INET : AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  if (rc == EAI_SYSTEM) return descriptor_error("cannot look up host " + in_quotes(where.host));
  if (rc == EAI_ADDRFAMILY) {
    return error(hktInvalidArgument, "host %s has no address of the family that HOCKET_SOCKET_FAMILY asks for",
                 in_quotes(where.host).c_str());
  }
  if (rc != 0) {
    return error(hktRemoteError, "cannot look up host %s: %s", in_quotes(where.host).c_str(), gai_strerror(rc));
  }
  std::vector<Address> out;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    const Address address(a->ai_addr, a->ai_addrlen);
    if (address.valid() && std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
  }
  freeaddrinfo(list);
  if (out.empty()) return error(hktRemoteError, "host %s has no IP address", in_quotes(where.host).c_str());
  return out;
}

Result<Fd> listen_on(const Address& where, int backlog) {
  HKT_ASSIGN(Fd made, make_socket(where));
  const int fd = made.get();
  const int on = 1;
  // A port that a former job left in TIME_WAIT is free for us; one with a listener stays refused.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.family() == Family::v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd, where.data(), where.size()) != 0 || listen(fd, backlog) != 0) {
    if (errno == EADDRINUSE) {
      const OutgoingPorts outgoing = OutgoingPorts::read();
      const std::string why = outgoing.has(where.port())
                                  ? "; the system takes the ports " + outgoing.text() +
                                        " for outgoing connections (`ss -tanp` names them): choose one outside"
                                  : "";
      return error(hktInvalidUsage,
                   "cannot listen on %s: the port is taken by another process: end it (`ss -ltnp` names it) or choose "
                   "another port%s",
                   where.text().c_str(), why.c_str());
    }
    if (errno == EACCES) {
      return error(hktInvalidUsage, "cannot listen on %s: permission denied: choose a port from 1024 on",
                   where.text().c_str());
    }
    return descriptor_error("cannot listen on " + where.text());
  }
  return made;
}

Result<Fd> accept_on(int listener, Address* peer) {
  for (;;) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    Fd fd(accept4(listener, reinterpret_cast<sockaddr*>(&storage), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      set_nodelay(fd.get());
      if (peer != nullptr) *peer = Address(reinterpret_cast<const sockaddr*>(&storage), size);
      return fd;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Fd();
    // Linux hands out pending network errors of the new connection here: it is gone, the next one may be fine.
    if (errno == EINTR || errno == EPROTO || errno == EPERM || is_remote(errno)) continue;
    return descriptor_error("cannot accept a connection");
  }
}

Result<Fd> start_connect(const Address& to, const Address* source) {
  HKT_ASSIGN(Fd made, make_socket(to));
  const int fd = made.get();
  if (source != nullptr) {
    Address from = *source;
    from.set_port(0);
    if (bind(fd, from.data(), from.size()) != 0) {
      // An address that this host has lost since: another may do.
      const std::string what = "cannot connect from " + from.host();
      if (errno == EADDRNOTAVAIL) return error(hktRemoteError, "%s: %s", what.c_str(), errno_text(errno).c_str());
      return descriptor_error(what);
    }
  }
  set_nodelay(fd);
  // EINTR of a non-blocking connect means under way, as EINPROGRESS does.
  if (connect(fd, to.data(), to.size()) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return remote_or_system("cannot connect to " + to.text(), errno);
  }
  return made;
}

Status finish_connect(int fd, const Address& to) {
  int number = 0;
  socklen_t size = sizeof number;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) != 0) number = errno;
  if (number != 0) return remote_or_system("cannot connect to " + to.text(), number);
  // A port of the ephemeral range that nobody listens on may be given to this very socket as its own: TCP then
  // connects it to itself, and would keep the real listener from binding.
  const Result<Address> self = local_address(fd);
  if (self && self.value() == to) {
    return error(hktRemoteError, "cannot connect to %s: %s", to.text().c_str(), errno_text(ECONNREFUSED).c_str());
  }
  return {};
}

Result<Fd> connect_to(const Address& to, Deadline deadline, const Address* source) {
  HKT_ASSIGN(Fd made, start_connect(to, source));
  HKT_ASSIGN(const bool ready, wait_ready(made.get(), POLLOUT, deadline));
  if (!ready) return error(hktTimeout, "cannot connect to %s: no answer before the deadline", to.text().c_str());
  HKT_TRY(finish_connect(made.get(), to));
  return made;
}

namespace {

Result<Address> name_of(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return remote_or_system("cannot get the address of a socket", errno);
  }
  return Address(reinterpret_cast<const sockaddr*>(&storage), size);
}

}  // namespace

Result<Address> local_address(int fd) { return name_of(fd, getsockname); }
Result<Address> peer_address(int fd) { return name_of(fd, getpeername); }

Result<std::pair<Fd, Fd>> socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return descriptor_error("cannot make a socket pair");
  }
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

namespace {
constexpr size_t kMost = size_t{1} << 30;  // Linux moves at most 0x7ffff000 bytes per call
}

Result<size_t> send_some(int fd, const void* data, size_t n) {
  for (;;) {
    const ssize_t moved = send(fd, data, std::min(n, kMost), MSG_NOSIGNAL);
    if (moved >= 0) return static_cast<size_t>(moved);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return remote_or_system("cannot send", errno);
  }
}

Result<size_t> recv_some(int fd, void* data, size_t n) {
  if (n == 0) return size_t{0};
  for (;;) {
    const ssize_t moved = recv(fd, data, std::min(n, kMost), 0);
    if (moved > 0) return static_cast<size_t>(moved);
    if (moved == 0) return error(hktRemoteError, "connection closed by the other side");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return remote_or_system("cannot receive", errno);
  }
}

Result<bool> wait_ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd p{fd, events, 0};
    const int rc = poll(&p, 1, deadline.left_ms());
    if (rc > 0) return true;
    if (rc == 0 && deadline.passed()) return false;
    if (rc < 0 && errno != EINTR) return descriptor_error("cannot poll a socket");
  }
}

Status send_all(int fd, const void* data, size_t n, Deadline deadline) {
  const char* bytes = static_cast<const char*>(data);
  while (n > 0) {
    HKT_ASSIGN(const size_t moved, send_some(fd, bytes, n));
    bytes += moved;
    n -= moved;
    if (moved > 0) continue;
    HKT_ASSIGN(const bool ready, wait_ready(fd, POLLOUT, deadline));
    if (!ready) return error(hktTimeout, "cannot send: the other side took nothing before the deadline");
  }
  return {};
}

Status recv_all(int fd, void* data, size_t n, Deadline deadline) {
  char* bytes = static_cast<char*>(data);
  while (n > 0) {
    HKT_ASSIGN(const size_t moved, recv_some(fd, bytes, n));
    bytes += moved;
    n -= moved;
    if (moved > 0) continue;
    HKT_ASSIGN(const bool ready, wait_ready(fd, POLLIN, deadline));
    if (!ready) return error(hktTimeout, "cannot receive: the other side sent nothing before the deadline");
  }
  return {};
}

}  // namespace hocket
