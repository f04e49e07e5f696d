#include "transport/tcp/teller.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/deadline.h"
#include "transport/tcp/fault_frame.h"

namespace hocket::tcp {

Teller::Teller(const Connector::Config& config, const Fault& fault, std::vector<Listener> to)
    : log_(config.log), listeners_(std::move(to)) {
  const Hello hello = config.hello(Purpose::tell);
  Header header;
  header.epoch = config.limits.epoch;
  header.kind = Kind::fault;
  std::array<unsigned char, sizeof hello + sizeof header + kMaxControl> bytes{};
  header.length = pack_fault(fault, bytes.data() + sizeof hello + sizeof header);
  std::memcpy(bytes.data(), &hello, sizeof hello);
  std::memcpy(bytes.data() + sizeof hello, &header, sizeof header);
  bytes_.assign(reinterpret_cast<const char*>(bytes.data()), sizeof hello + sizeof header + header.length);
  if (config.secret == nullptr) return;
  // Nobody waits for an answer here, so the message proves itself. The hello has the communicator's nonce: heard once
  // more, it tells what is known there.
  if (Result<std::string> sealed = seal(*config.secret, bytes_)) {
    bytes_ = std::move(*sealed);
  } else {
    HKT_WARN(net, log_, "no rank can be told of the fault: %s", sealed.error().text.c_str());
    next_ = listeners_.size();
  }
}

bool Teller::start(Talk& talk, int64_t now) {
  for (; talk.way < talk.to->ways.size(); ++talk.way) {
    const Way& way = talk.to->ways[talk.way];
    Result<Fd> fd = start_connect(way.to, way.from.valid() ? &way.from : nullptr);
    if (!fd) continue;
    talk.fd = std::move(*fd);
    talk.since = now;
    return true;
  }
  HKT_INFO(net, log_, "rank %d could not be told of the fault: it has gone, or nothing answers there", talk.to->rank);
  return false;
}

bool Teller::advance(Talk& talk, int64_t now) {
  const int fd = talk.fd.get();
  if (talk.said) {
    int unacknowledged = 0;
    return ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged != 0;
  }
  pollfd ready{fd, POLLOUT, 0};
  const bool connected = poll(&ready, 1, 0) > 0;
  const bool last = talk.way + 1 == talk.to->ways.size();
  if (!connected && (last || now - talk.since < Connector::kNextAfterNs)) return true;
  if (connected && finish_connect(fd, talk.to->ways[talk.way].to).ok()) {
    // The first bytes of a connection always fit.
    Result<size_t> sent = send_some(fd, bytes_.data(), bytes_.size());
    talk.said = sent && *sent == bytes_.size();
    if (talk.said) return true;
  }
  ++talk.way;
  return start(talk, now);
}

void Teller::progress() {
  const int64_t now = now_ns();
  for (size_t i = talks_.size(); i-- > 0;) {
    if (advance(talks_[i], now)) continue;
    if (i + 1 != talks_.size()) talks_[i] = std::move(talks_.back());
    talks_.pop_back();
  }
  while (next_ != listeners_.size() && talks_.size() < kAtOnce) {
    Talk talk;
    talk.to = &listeners_[next_++];
    // On a connection within a host the answer is there at once.
    if (start(talk, now) && advance(talk, now)) talks_.push_back(std::move(talk));
  }
}

void Teller::poll_set(std::vector<pollfd>& fds) const {
  for (const Talk& t : talks_)
    if (!t.said) fds.push_back({t.fd.get(), POLLOUT, 0});
}

}  // namespace hocket::tcp
