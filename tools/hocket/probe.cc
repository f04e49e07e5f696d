#include "probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/deadline.h"
#include "base/socket.h"

namespace hocket::tool {
namespace {

constexpr int kProbeMs = 3000;
constexpr uint16_t kPort = 60000;  // whoever listens there or not: any answer will do

struct Probe {
  Fd fd;
  int failure = 0;  // errno
};

bool answered(int failure) { return failure == 0 || failure == ECONNREFUSED || failure == ECONNRESET; }

Probe start(const std::string& host) {
  Probe out;
  const Result<std::vector<Address>> to = resolve({host, kPort}, Family::any);
  if (!to.ok()) {
    out.failure = EADDRNOTAVAIL;
    return out;
  }
  const Address& address = to.value().front();
  out.fd = Fd(socket(address.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!out.fd || connect(out.fd.get(), address.data(), address.size()) != 0) out.failure = errno;
  if (out.failure != EINPROGRESS) out.fd.reset();
  return out;
}

}  // namespace

std::vector<std::string> probe(const std::vector<std::string>& addresses) {
  std::vector<Probe> probes;
  for (const std::string& address : addresses) probes.push_back(start(address));
  const Deadline deadline = Deadline::in_ms(kProbeMs);
  std::vector<std::string> out;
  for (Probe& p : probes) {
    if (p.fd) {
      const Result<bool> ready = wait_ready(p.fd.get(), POLLOUT, deadline);
      socklen_t size = sizeof p.failure;
      p.failure = ETIMEDOUT;
      if (ready.ok() && ready.value() && getsockopt(p.fd.get(), SOL_SOCKET, SO_ERROR, &p.failure, &size) != 0)
        p.failure = errno;
    }
    out.emplace_back(answered(p.failure) ? "" : std::strerror(p.failure));
  }
  return out;
}

}  // namespace hocket::tool
