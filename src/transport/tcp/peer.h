// One peer of a TcpTransport. Part of its implementation, apart for the tests that look inside.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transport/tcp/tcp_transport.h"

namespace hocket::tcp {

// Its connection, what goes out and what comes in.
struct TcpTransport::Peer final : Inbox::Sink {
  enum class State : uint8_t {
    idle,    // no link opened here, not connected
    wanted,  // to be connected
    up,
    gone,  // the connection is closed, after a goodbye or with a fault
  };
  Peer(TcpTransport& t, int r) HKT_REQUIRES(t.turn_) : transport(t), rank(r), out(t.limits_, t.calls_), in(t.limits_) {}
  Status control(const Header& header, const unsigned char* payload) override HKT_REQUIRES(transport.turn_);

  TcpTransport& transport;
  const int rank;
  State state = State::idle;
  Fd fd;
  std::string address;
  Outbox out;
  Inbox in;
  std::string send_error;            // why sending failed: counts only after all the peer has said has been read
  bool queued = false;               // in queued_
  bool goodbye = false;              // the peer has said it
  bool shut = false;                 // closed for sending: this rank leaves
  std::array<uint64_t, 2> opened{};  // by End: set of tags
  int64_t wanted_at = 0;
  CallLog calls;  // announced by it
};

}  // namespace hocket::tcp
