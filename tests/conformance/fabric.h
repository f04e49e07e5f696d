// Fabric: n ranks as threads of one process over one kind of transport. The conformance suite (transport_test.cc) runs
// every test over every fabric. A fabric plugs itself in from its own source file:
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, TransportTest, testing::Values(+[] { return FabricPtr(new TcpFabric); }));
//
// (and the same for MortalTransportTest if its ranks can be killed), and that file is added to the
// transport_conformance line of CMakeLists.txt.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transport/doorbell.h"
#include "transport/link.h"
#include "transport/transport.h"

namespace hocket {

// What link.h's friend declaration lets tests do: let both ends of an unused link start at message number `count`, as
// if that many had passed, to reach the wrap of the 32-bit sequence.
struct LinkTestAccess {
  static void start_at(Link& link, uint64_t count) {
    link.count_ = link.limit_ = count;
    link.credit_->store(count, std::memory_order_release);
  }
};

}  // namespace hocket

namespace hocket::test {

// One rank of a fabric. Its transport is used by one thread at a time.
struct Rank {
  std::unique_ptr<Transport> transport;
  Doorbell* bell = nullptr;  // what it sleeps on when poll_set() is empty; null: this transport has no doorbell
  Fence fence = Fence::full;
  int nap_ms =
      5000;  // longest sleep; long, so that a lost wake-up shows. Short where nothing wakes a sleeper by design
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  // Ranks 0 … nranks-1, every pair connected (or able to connect by progress()), tags 0 … tags-1. Called at most once;
  // a failure is a gtest failure and gives an empty vector. The ranks are destroyed before the fabric, in any order.
  virtual std::vector<Rank> make(int nranks, uint16_t tags, RingGeometry geometry) = 0;
  // Both ends of a link that nobody has used yet start at message number `count`.
  virtual void start_at(Link& send, Link& recv, uint64_t count) {
    LinkTestAccess::start_at(send, count);
    LinkTestAccess::start_at(recv, count);
  }
  // How many messages push_ready() may let through while the far end pops none and both ends make progress.
  virtual uint64_t most_in_flight(const RingGeometry& geometry) const { return geometry.depth; }
  // Makes `rank` look to its peers as if its process had been killed; only for MortalTransportTest.
  virtual void kill(int rank) { ADD_FAILURE() << "rank " << rank << " of this fabric cannot be killed"; }
};

using FabricPtr = std::unique_ptr<Fabric>;
using FabricMaker = FabricPtr (*)();

class TransportTest : public testing::TestWithParam<FabricMaker> {
 protected:
  // Makes the ranks of a fresh fabric; a test asserts that ranks() is not empty.
  void make(int nranks, RingGeometry geometry, uint16_t tags = 4) {
    ranks_.clear();
    fabric_ = GetParam()();
    ranks_ = fabric_->make(nranks, tags, geometry);
    ASSERT_EQ(ranks_.size(), static_cast<size_t>(nranks));
  }
  Transport& at(int rank) { return *ranks_[static_cast<size_t>(rank)].transport; }
  Rank& rank(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  // Runs body(rank) on one thread per rank.
  void each(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r) threads.emplace_back([&body, r] { body(static_cast<int>(r)); });
    for (std::thread& t : threads) t.join();
  }

  FabricPtr fabric_;  // destroyed after the ranks
  std::vector<Rank> ranks_;
};

// The fault that a transport knows of; hktSuccess if none.
inline Fault fault_of(Transport& transport) { return transport.fault().value_or(Fault{}); }
// The call that a peer has announced; number 0 if none is known.
inline CallRecord call_of(const Transport& transport, int peer, uint64_t seq) {
  return transport.announced(peer, seq).value_or(CallRecord{});
}

// Tests with ranks that die.
class MortalTransportTest : public TransportTest {};

// Waits until ready() is true, making progress: polls a little, then sleeps as the engine does, on the doorbell or on
// the transport's file descriptors. False at the deadline.
bool wait_until(Rank& rank, const std::function<bool()>& ready, Deadline deadline = Deadline::in_ms(20'000),
                int polls = 50);

}  // namespace hocket::test
