// Sizes, bandwidths and expected results of `hocket perf`, against the collectives written down by hand.
#include "perf_collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "perf_data.h"
#include "schedule/collective.h"
#include "schedule/text.h"

namespace hocket::tool {
namespace {

TEST(PerfCollective, HasTheNamesOfNcclTests) {
  for (const char* name : {"all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "gather", "hypercube",
                           "reduce", "reduce_scatter", "scatter", "sendrecv", "barrier"}) {
    const PerfCollective* found = find_perf_collective(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_STREQ(found->name, name);
  }
  for (const char* name : {"", "allreduce", "all_reduce_perf", "all_to_all"})
    EXPECT_EQ(find_perf_collective(name), nullptr) << name;
}

// Counts as src/*.cu of nccl-tests 2.19.6 compute them, by hand.
TEST(PerfCollective, CountsAreThoseOfNcclTests) {
  struct Case {
    Collective collective;
    uint64_t bytes, element_bytes;
    int nranks;
    uint64_t count, in, out;
  };
  for (const Case& c : {Case{Collective::all_reduce, 1023, 4, 3, 255, 255, 255},
                        {Collective::broadcast, 7, 8, 3, 0, 0, 0},
                        {Collective::reduce, 100, 1, 7, 100, 100, 100},
                        {Collective::all_gather, 8, 4, 2, 0, 0, 0},
                        {Collective::all_gather, 32, 4, 2, 4, 4, 8},
                        {Collective::gather, 1000, 1, 3, 320, 320, 960},  // 333 and a third
                        {Collective::reduce_scatter, 1000, 8, 3, 40, 120, 40},
                        {Collective::scatter, 1 << 20, 2, 3, 174760, 524280, 174760},
                        {Collective::all_to_all, 1000, 16, 3, 20, 60, 60},
                        {Collective::all_to_all, 31, 4, 1, 4, 4, 4},
                        {Collective::barrier, 1000, 4, 2, 0, 0, 0}}) {
    const uint64_t count = perf_count(c.collective, c.bytes, c.element_bytes, c.nranks);
    EXPECT_EQ(count, c.count) << c.bytes;
    EXPECT_EQ(perf_in_elements(c.collective, count, c.nranks), c.in) << c.bytes;
    EXPECT_EQ(perf_out_elements(c.collective, count, c.nranks), c.out) << c.bytes;
  }
}

TEST(PerfCollective, BandwidthsAreThoseOfNcclTests) {
  const auto factor = [](const char* name, int n) { return bus_factor(*find_perf_collective(name), n); };
  EXPECT_DOUBLE_EQ(factor("all_reduce", 4), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter"})
    EXPECT_DOUBLE_EQ(factor(name, 4), 0.75) << name;
  for (const char* name : {"broadcast", "reduce", "sendrecv", "hypercube", "barrier"})
    EXPECT_DOUBLE_EQ(factor(name, 4), 1) << name;
  EXPECT_DOUBLE_EQ(factor("all_reduce", 1), 0);
  for (const PerfCollective& c : perf_collectives())
    EXPECT_DOUBLE_EQ(alg_factor(c, 4), std::string(c.name) == "hypercube" ? 0.75 : 1) << c.name;
}

TEST(PerfCollective, UnevenBlocksFitTogether) {
  for (const int n : {1, 2, 3, 8}) {
    std::vector<PerfCall> calls(static_cast<size_t>(n));
    for (int r = 0; r < n; ++r) {
      PerfCall& c = calls[static_cast<size_t>(r)];
      c.count = 1000;
      c.rank = r;
      c.nranks = n;
      make_uneven(c);
    }
    for (size_t s = 0; s < calls.size(); ++s) {
      size_t sent = 0, received = 0;
      for (size_t d = 0; d < calls.size(); ++d) {
        EXPECT_EQ(calls[s].sendcounts[d], calls[d].recvcounts[s]);
        EXPECT_EQ(calls[s].sdispls[d], sent);
        EXPECT_EQ(calls[s].rdispls[d], received);
        sent += calls[s].sendcounts[d];
        received += calls[s].recvcounts[d];
      }
      EXPECT_LE(sent, 1000u * calls.size());
      EXPECT_GT(sent, 990u * calls.size());
      EXPECT_EQ(sent, received);
      if (n > 1) {
        EXPECT_NE(calls[s].sendcounts[0], calls[s].sendcounts[1]);
      }
    }
  }
}

TEST(PerfCollective, HypercubesHaveAPowerOfTwoOfRanks) {
  const PerfCollective& hypercube = *find_perf_collective("hypercube");
  for (const int n : {1, 2, 4, 64}) EXPECT_EQ(unsupported_ranks(hypercube, n), nullptr) << n;
  for (const int n : {3, 6, 63}) EXPECT_NE(unsupported_ranks(hypercube, n), nullptr) << n;
  EXPECT_EQ(unsupported_ranks(*find_perf_collective("sendrecv"), 3), nullptr);
}

constexpr int kRanks = 4, kRoot = 2;
constexpr uint64_t kCount = 1024;  // a power of two, as in most rows: no period may divide it
using Vector = std::vector<uint32_t>;

// What a rank receives, by the definition of the collective alone.
Vector executed(Collective collective, const std::vector<Vector>& in, int rank) {
  const auto own = static_cast<uint64_t>(rank) * kCount;
  Vector out(perf_out_elements(collective, kCount, kRanks));
  for (uint64_t i = 0; i < out.size(); ++i) {
    const uint64_t block = i / kCount, at = i % kCount;
    switch (collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        for (const Vector& v : in) out[i] += v[i];
        break;
      case Collective::reduce_scatter:
        for (const Vector& v : in) out[i] += v[own + i];
        break;
      case Collective::broadcast:
        out[i] = in[kRoot][i];
        break;
      case Collective::scatter:
        out[i] = in[kRoot][own + i];
        break;
      case Collective::all_gather:
      case Collective::gather:
        out[i] = in[block][at];
        break;
      case Collective::all_to_all:
        out[i] = in[block][own + at];
        break;
      case Collective::barrier:
        break;
    }
  }
  return out;
}

class PerfExpected : public testing::TestWithParam<Collective> {
 protected:
  PerfExpected()
      : data_(hktUint32, reduces(GetParam()) ? std::optional(hktSum) : std::nullopt, kRanks, 9),
        in_(kRanks, Vector(perf_in_elements(GetParam(), kCount, kRanks))) {
    for (const PerfCollective& c : perf_collectives())
      if (c.collective == GetParam() && c.traffic == Traffic::collective) test_ = &c;
    call_.nranks = kRanks;
    call_.count = kCount;
    call_.type = hktUint32;
    call_.root = kRoot;
    for (int r = 0; r < kRanks; ++r)
      data_.fill(in_[static_cast<size_t>(r)].data(), in_[static_cast<size_t>(r)].size(), r);
  }
  uint64_t wrong(const Vector& out, int rank) const {
    uint64_t bad = 0;
    PerfCall call = call_;
    call.rank = rank;
    for (const Piece& p : perf_expected(*test_, call))
      bad += p.source == kReduced ? data_.wrong_reduced(out.data() + p.at, p.count, p.first)
                                  : data_.wrong_copied(out.data() + p.at, p.count, p.source, p.first);
    return bad;
  }

  const PerfCollective* test_ = nullptr;
  PerfData data_;
  std::vector<Vector> in_;
  PerfCall call_;
};

TEST_P(PerfExpected, IsWhatTheCollectiveGives) {
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(wrong(executed(GetParam(), in_, r), r), 0u) << r;
}

TEST_P(PerfExpected, EveryElementCounts) {
  for (int r = 0; r < kRanks; ++r) {
    Vector out = executed(GetParam(), in_, r);
    for (uint32_t& v : out) v ^= 1u << 31;
    EXPECT_EQ(wrong(out, r), out.size()) << r;
  }
}

// Faults of whole blocks, which simpler data would hide.
TEST_P(PerfExpected, AnotherRanksResultShows) {
  const bool same = !out_is_own_block(GetParam()) && GetParam() != Collective::all_to_all;
  for (int r = 0; r < kRanks; ++r) {
    const uint64_t bad = wrong(executed(GetParam(), in_, (r + 1) % kRanks), r);
    if (same)
      EXPECT_EQ(bad, 0u);
    else
      EXPECT_GT(bad, kCount / 4);
  }
}

TEST_P(PerfExpected, BlocksThatAreSwappedShow) {
  Vector out = executed(GetParam(), in_, 1);
  const uint64_t half = out.size() / 2;
  std::swap_ranges(out.begin(), out.begin() + static_cast<ptrdiff_t>(half), out.begin() + static_cast<ptrdiff_t>(half));
  EXPECT_GT(wrong(out, 1), kCount / 4);
}

TEST_P(PerfExpected, AnInputThatIsMissingOrStaleShows) {
  in_[kRoot] = in_[kRoot - 1];
  uint64_t bad = 0;
  for (int r = 0; r < kRanks; ++r) bad += wrong(executed(GetParam(), in_, r), r);
  EXPECT_GT(bad, kCount / 4);
}

INSTANTIATE_TEST_SUITE_P(All, PerfExpected,
                         testing::Values(Collective::all_reduce, Collective::broadcast, Collective::reduce,
                                         Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
                                         Collective::gather, Collective::scatter),
                         [](const auto& p) { return std::string(collective_name(p.param)); });

}  // namespace
}  // namespace hocket::tool
