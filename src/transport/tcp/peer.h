// One peer of a TcpTransport. Part of its implementation, apart for the tests that look inside.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp_transport.h"

namespace hocket::tcp {

// Its connections, what goes out and what comes in.
struct TcpTransport::Peer final : Inbox::Sink {
  enum class State : uint8_t {
    idle,    // no link opened here, not connected
    wanted,  // to be connected
    up,
    gone,  // the connection is closed, after a goodbye or with a fault
  };
  // A further connection, which carries parts of large messages.
  struct Share {
    Fd fd;
    Outbox::Share out;
    Inbox::Stream in{Inbox::Stream::Kind::further};
    bool shut = false;  // closed for sending: this rank leaves
  };
  Peer(TcpTransport& t, int r) HKT_REQUIRES(t.turn_)
      : transport(t), rank(r), out(t.limits_, t.calls_, t.config_.striping), in(t.limits_) {}
  // The peer has left, and all that it has sent is here: it says goodbye on the first connection when the others have
  // nothing under way any more, whether they were ever seen here or not.
  bool all_come() const { return goodbye && !in.incomplete(); }
  // By all of them.
  bool all_sent() const { return out.idle() && out.unsent() == 0; }
  // Large messages have gone either way.
  bool large() const { return std::max<uint64_t>(in.largest(), out.largest()) >= transport.config_.striping.from; }
  Status control(const Header& header, const unsigned char* payload) override HKT_REQUIRES(transport.turn_);

  TcpTransport& transport;
  const int rank;
  State state = State::idle;
  Fd fd;
  std::string address;
  Address where;  // of the peer, as `address`
  Outbox out;
  Inbox in;
  Inbox::Stream stream{Inbox::Stream::Kind::first};
  std::vector<std::unique_ptr<Share>> shares;  // may come before the first connection is up
  enum class More : uint8_t { may, coming, none };
  More more_shares = More::may;      // one is being made; none will be
  std::string send_error;            // why sending failed: counts only after all the peer has said has been read
  bool queued = false;               // in queued_
  bool goodbye = false;              // the peer has said it
  bool shut = false;                 // closed for sending: this rank leaves
  std::array<uint64_t, 2> opened{};  // by End: set of tags
  int64_t wanted_at = 0;
  CallLog calls;  // announced by it
};

}  // namespace hocket::tcp
