// Segments of several communicators in one file: what they cost, what they give back, and that a place in a process is
// held as long as any of them needs it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>

#include "transport/shm/group.h"
#include "transport/shm/shm_transport.h"

namespace hocket::test {
namespace {

using shm::Backing;
using shm::GroupConfig;
using shm::Segment;
using shm::ShmTransport;

constexpr uint32_t kSignature = 5;

// Rank `rank` of two, which live in this process.
GroupConfig config_of(int rank, Backing backing) {
  GroupConfig config;
  config.ranks = {0, 1};
  config.my_rank = rank;
  config.process_token = 7;
  config.tokens = {7, 7};
  config.nonce = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
  config.geometry = {4, 4096, 2};
  config.tags = 2;
  config.small_tags = 1;
  config.backing = backing;
  return config;
}

int64_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

int64_t blocks(const shm::File& file) {
  struct stat info {};
  EXPECT_EQ(fstat(file.fd(), &info), 0);
  return info.st_blocks;
}

class ShmFile : public testing::TestWithParam<Backing> {
 protected:
  void SetUp() override {
    auto leader = shm::Leader::create(config_);
    ASSERT_TRUE(leader.ok()) << leader.error().text;
    segment_ = (*leader)->segment();
  }
  const shm::File& file() const { return *segment_->file(); }

  const GroupConfig config_ = config_of(0, GetParam());
  std::shared_ptr<Segment> segment_;
};

TEST_P(ShmFile, AFurtherSegmentCostsNoDescriptorAndGivesItsMemoryBack) {
  const int64_t descriptors_before = descriptors(), blocks_before = blocks(file());
  for (int i = 0; i < 3; ++i) {
    GroupConfig child = config_of(0, GetParam());
    child.seats = {1, 0};
    auto first = shm::create_in(segment_->file(), child);
    ASSERT_TRUE(first.ok()) << first.error().text;
    ShmTransport a(*first, child);
    child.my_rank = 1;
    auto second = shm::attach_in(segment_->file(), (*first)->offset(), child);
    ASSERT_TRUE(second.ok()) << second.error().text;
    EXPECT_EQ(first->get(), second->get()) << "one mapping per process";
    ShmTransport b(*second, child);
    EXPECT_EQ(descriptors(), descriptors_before);
    for (const uint16_t tag : {uint16_t{0}, uint16_t{1}}) {
      auto out = a.open_send(1, tag);
      auto in = b.open_recv(0, tag);
      ASSERT_TRUE(out.ok() && in.ok());
      const uint32_t most = out->slot_bytes();
      EXPECT_EQ(most, tag == 0 ? 4096u : shm::kSmallRing.slot_bytes);
      std::memset(out->push_begin(most), 7, most);
      out->push(most, kSignature);
      ASSERT_TRUE(in->pop_ready(kSignature));
      EXPECT_EQ(in->pop_begin(most)[most - 1], 7);
    }
    EXPECT_GT(blocks(file()), blocks_before);
  }
  EXPECT_EQ(blocks(file()), blocks_before);
}

TEST_P(ShmFile, ASeatIsHeldUntilItsLastSegmentHasLeftIt) {
  const pid_t peer = fork();  // locks of one's own process cannot be seen
  if (peer == 0) _exit(segment_->file()->held(0) ? 0 : 1);
  int status = 0;
  waitpid(peer, &status, 0);
  EXPECT_EQ(status, 0) << "held";
  ASSERT_TRUE(segment_->file()->hold(0).ok());
  segment_->leave(0);
  const pid_t later = fork();
  if (later == 0) _exit(segment_->file()->held(0) ? 0 : 1);
  waitpid(later, &status, 0);
  EXPECT_EQ(status, 0) << "still held, by the other one";
  segment_->file()->release(0);
  const pid_t last = fork();
  if (last == 0) _exit(segment_->file()->held(0) ? 1 : 0);
  waitpid(last, &status, 0);
  EXPECT_EQ(status, 0) << "free";
}

TEST_P(ShmFile, ASegmentOfAnotherShapeIsRefused) {
  const auto refused = [&](uint64_t offset, const GroupConfig& config) {
    const auto mapped = Segment::map(segment_->file(), offset, config);
    return !mapped.ok();
  };
  EXPECT_FALSE(refused(shm::File::kFirst, config_));
  EXPECT_TRUE(refused(shm::File::kFirst, config_of(0, GetParam()))) << "another nonce";
  EXPECT_TRUE(refused(uint64_t{1} << 40, config_)) << "beyond the end";
  GroupConfig other = config_;
  other.tags = 3;
  EXPECT_TRUE(refused(shm::File::kFirst, other)) << "another number of links";
  other = config_;
  other.small_tags = 0;
  EXPECT_TRUE(refused(shm::File::kFirst, other)) << "another kind of links";
}

INSTANTIATE_TEST_SUITE_P(Memfd, ShmFile, testing::Values(Backing::memfd));
INSTANTIATE_TEST_SUITE_P(Devshm, ShmFile, testing::Values(Backing::devshm));

}  // namespace
}  // namespace hocket::test
