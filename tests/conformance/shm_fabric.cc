// Shared memory in the conformance suite: ranks as threads of one process, which share one mapping. (Ranks as
// processes, and their death: shm_test.cc.)
#include <random>

#include "conformance/fabric.h"
#include "transport/shm/group.h"
#include "transport/shm/shm_transport.h"

namespace hocket::test {
namespace {

class Shm final : public Fabric {
 public:
  Shm(shm::Backing backing, Fence fence) : backing_(backing), fence_(fence) {}

  std::vector<Rank> make(int nranks, uint16_t tags, RingGeometry geometry) override {
    shm::GroupConfig config;
    config.nonce = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
    config.process_token = 11;
    config.geometry = geometry;
    config.tags = tags;
    config.backing = backing_;
    config.fence = fence_;
    for (int r = 0; r < nranks; ++r) config.ranks.push_back(r);
    config.tokens.assign(config.ranks.size(), config.process_token);
    auto leader = shm::Leader::create(config);
    EXPECT_TRUE(leader.ok()) << leader.error().text;
    if (!leader) return {};
    std::vector<Rank> ranks(config.ranks.size());
    for (int r = 0; r < nranks; ++r) {
      config.my_rank = r;
      auto segment = r == 0 ? (*leader)->segment() : shm::attach(config, Deadline::in_ms(5000));
      EXPECT_TRUE(segment.ok()) << segment.error().text;
      if (!segment) return {};
      auto transport = std::make_unique<shm::ShmTransport>(*segment, config);
      Rank& rank = ranks[static_cast<size_t>(r)];
      rank.bell = &transport->bell();
      rank.fence = fence_;
      rank.transport = std::move(transport);
    }
    return ranks;
  }

 private:
  const shm::Backing backing_;
  const Fence fence_;
};

FabricPtr memfd() { return std::make_unique<Shm>(shm::Backing::memfd, Fence::full); }
FabricPtr devshm() { return std::make_unique<Shm>(shm::Backing::devshm, Fence::full); }
FabricPtr asymmetric() {
  // Where the kernel has no membarrier, the communicator uses full fences, and so does this fabric.
  return std::make_unique<Shm>(shm::Backing::memfd, register_asymmetric_fence() ? Fence::asymmetric : Fence::full);
}

INSTANTIATE_TEST_SUITE_P(ShmMemfd, TransportTest, testing::Values(&memfd));
INSTANTIATE_TEST_SUITE_P(ShmDevshm, TransportTest, testing::Values(&devshm));
INSTANTIATE_TEST_SUITE_P(ShmAsymmetric, TransportTest, testing::Values(&asymmetric));

}  // namespace
}  // namespace hocket::test
