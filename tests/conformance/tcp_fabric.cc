// TCP in the conformance suite: over both loopback addresses, and with messages cut for several connections.
#include "conformance/fabric.h"
#include "conformance/tcp_ranks.h"

namespace hocket::test {
namespace {

class Tcp final : public Fabric {
 public:
  explicit Tcp(Family family, const tcp::Striping& striping = {}) : family_(family), striping_(striping) {}

  std::vector<Rank> make(int nranks, uint16_t tags, RingGeometry geometry) override {
    TcpSetup setup;
    setup.geometry = geometry;
    setup.striping = striping_;
    setup.tags = tags;
    setup.addresses = {Address::loopback(family_, 0)};
    TcpRanks transports = make_tcp_ranks(nranks, setup);
    if (transports.empty()) return {};
    for (auto& t : transports) {
      const Status s = t->connect_all();
      EXPECT_TRUE(s.ok()) << s.error().text;
    }
    const auto all_connected = [&] {
      size_t connections = 0;
      for (auto& t : transports) connections += t->connected();
      return connections == static_cast<size_t>(nranks) * static_cast<size_t>(nranks - 1);
    };
    EXPECT_TRUE(pump_until(transports, all_connected));
    std::vector<Rank> ranks(transports.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      transports_.push_back(transports[r].get());
      ranks[r].transport = std::move(transports[r]);
    }
    return ranks;
  }

  void start_at(Link& send, Link& recv, uint64_t count) override {
    Fabric::start_at(send, recv, count);
    // The pump's name for a link is peer and tag.
    const auto from = static_cast<int>(recv.id() >> 16), to = static_cast<int>(send.id() >> 16);
    const auto tag = static_cast<uint16_t>(send.id());
    tcp::TcpTestAccess::start_send(*transports_[static_cast<size_t>(from)], to, tag, count);
    tcp::TcpTestAccess::start_recv(*transports_[static_cast<size_t>(to)], from, tag, count);
  }
  void kill(int rank) override { tcp::TcpTestAccess::kill(*transports_[static_cast<size_t>(rank)]); }

 private:
  const Family family_;
  const tcp::Striping striping_;
  std::vector<tcp::TcpTransport*> transports_;
};

FabricPtr v4() { return std::make_unique<Tcp>(Family::v4); }
FabricPtr stripes() { return std::make_unique<Tcp>(Family::v4, tcp::Striping{3, 60, 50}); }
FabricPtr v6() { return std::make_unique<Tcp>(Family::v6); }

// A host without IPv6 has nothing to test: said once, by a test that is skipped.
std::vector<FabricMaker> v6_makers() { return has_ipv6() ? std::vector<FabricMaker>{&v6} : std::vector<FabricMaker>{}; }
TEST(TcpV6, ThisHostHasIt) {
  if (!has_ipv6()) GTEST_SKIP() << "this host has no IPv6 loopback address: the suite runs over IPv4 only";
}

INSTANTIATE_TEST_SUITE_P(TcpV4, TransportTest, testing::Values(&v4));
INSTANTIATE_TEST_SUITE_P(TcpStripes, TransportTest, testing::Values(&stripes));
INSTANTIATE_TEST_SUITE_P(TcpStripes, MortalTransportTest, testing::Values(&stripes));
INSTANTIATE_TEST_SUITE_P(TcpV6, TransportTest, testing::ValuesIn(v6_makers()));
INSTANTIATE_TEST_SUITE_P(TcpV4, MortalTransportTest, testing::Values(&v4));

}  // namespace
}  // namespace hocket::test
