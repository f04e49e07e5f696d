// Loopback in the conformance suite: plain, and with messages of different links overtaking one another.
#include "conformance/fabric.h"
#include "transport/loopback/loopback_transport.h"

namespace hocket::test {
namespace {

using loopback::Faults;
using loopback::LoopbackFabric;

class Loopback final : public Fabric {
 public:
  explicit Loopback(std::optional<Faults> faults) : faults_(faults) {}

  std::vector<Rank> make(int nranks, uint16_t, RingGeometry geometry) override {
    auto fabric = LoopbackFabric::create(nranks, geometry, faults_);
    EXPECT_TRUE(fabric.ok()) << fabric.error().text;
    if (!fabric) return {};
    fabric_ = *fabric;
    std::vector<Rank> ranks(static_cast<size_t>(nranks));
    for (int r = 0; r < nranks; ++r) {
      Rank& rank = ranks[static_cast<size_t>(r)];
      rank.transport = fabric_->transport(r);
      rank.bell = &fabric_->bell(r);
      if (faults_) rank.nap_ms = 1;  // messages that are held back ring nobody
    }
    return ranks;
  }
  void kill(int rank) override { fabric_->kill(rank); }

 private:
  const std::optional<Faults> faults_;
  std::shared_ptr<LoopbackFabric> fabric_;
};

FabricPtr plain() { return std::make_unique<Loopback>(std::nullopt); }
FabricPtr reordering() { return std::make_unique<Loopback>(Faults{7, 0, 100'000}); }

INSTANTIATE_TEST_SUITE_P(Loopback, TransportTest, testing::Values(&plain));
INSTANTIATE_TEST_SUITE_P(Reordering, TransportTest, testing::Values(&reordering));
INSTANTIATE_TEST_SUITE_P(Loopback, MortalTransportTest, testing::Values(&plain));
INSTANTIATE_TEST_SUITE_P(Reordering, MortalTransportTest, testing::Values(&reordering));

}  // namespace
}  // namespace hocket::test
