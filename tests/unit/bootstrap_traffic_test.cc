// What bring-up says on the way: how many requests a rank makes, and how many bytes go, for few ranks and for many.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <latch>
#include <string>
#include <vector>

#include "bootstrap/series.h"
#include "comm/bringup.h"
#include "unit/bootstrap_jobs.h"

namespace hocket::bringup {
namespace {

struct Sum {
  uint64_t most_requests = 0;  // of one rank
  uint64_t least_requests = UINT64_MAX;
  uint64_t bytes_in = 0;   // of all, to the server
  uint64_t bytes_out = 0;  // from it
};

// The whole bring-up of `nranks` ranks without shared memory, which takes the most steps.
Sum bring_up_all(Kind kind, int nranks) {
  Place place(kind);
  std::vector<Store::Traffic> traffic(static_cast<size_t>(nranks));
  std::latch all_up(nranks);
  std::vector<Process> all = processes(up_to(nranks), nranks);
  for (Process& p : all) {
    p.body = [&](Rendezvous& r) -> Status {
      CommSettings settings;
      settings.transport = "tcp";
      auto comm = hocket::bring_up(r, settings, Deadline::in_ms(60'000));
      traffic[static_cast<size_t>(r.rank())] = r.traffic();
      all_up.arrive_and_wait();
      return comm ? Status() : Status(std::move(comm.error()));
    };
  }
  for (const std::string& error : run(place, all, 60'000)) EXPECT_EQ(error, "");
  Sum out;
  for (const Store::Traffic& t : traffic) {
    out.most_requests = std::max(out.most_requests, t.requests);
    out.least_requests = std::min(out.least_requests, t.requests);
    out.bytes_in += t.sent;
    out.bytes_out += t.received;
  }
  return out;
}

class Traffic : public testing::TestWithParam<Kind> {};

TEST_P(Traffic, RequestsOfARankDoNotGrowWithTheNumberOfRanks) {
  for (const int nranks : {2, 3, 16, 64}) {
    const Sum sum = bring_up_all(GetParam(), nranks);
    // A hello, who I am, whether all belong together, a request for each of the five exchanges of a bring-up over TCP,
    // and a bye; rank 0 puts what the job is and its answer, too.
    EXPECT_EQ(sum.least_requests, 9U) << nranks;
    EXPECT_EQ(sum.most_requests, 11U) << nranks;
  }
}

TEST_P(Traffic, BytesGrowLittleFasterThanTheNumberOfRanks) {
  for (const int nranks : {16, 64}) {
    const Sum sum = bring_up_all(GetParam(), nranks);
    const auto n = static_cast<uint64_t>(nranks);
    const auto log = static_cast<uint64_t>(std::bit_width(n - 1));
    // What a rank says of itself does not depend on their number.
    EXPECT_LE(sum.bytes_in, 1000 * n) << nranks;
    // What a rank hears is one copy of what all say alike, and of each of the others what only that one says: eight
    // random bytes, a port, and what tells where they go.
    EXPECT_LE(sum.bytes_out, 220 * n * log + 24 * n * n) << nranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Tcp, Traffic, testing::Values(Kind::tcp, Kind::unique_id),
                         [](const auto& kind) { return kind.param == Kind::tcp ? "tcp" : "unique_id"; });

TEST(Series, ComesBackAsItWas) {
  const std::vector<std::vector<std::string>> all = {
      {""},
      {"", "", ""},
      {"same", "same", "same"},
      {"host a 17 x", "host a 18 x", "host a 18", "", "host a 18 x"},
      {"aaaa", "aa", "aaaaaa", "a"},
      {std::string(100'000, 'x'), std::string(100'000, 'x') + "y", "z"},
  };
  for (const auto& values : all) {
    const std::string bytes = wire::pack_series({values.begin(), values.end()});
    const auto back = wire::unpack_series(bytes, values.size(), size_t{1} << 20);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, values);
    // What is cut off, and another number of values, is none.
    if (!bytes.empty()) {
      EXPECT_FALSE(wire::unpack_series(bytes.substr(0, bytes.size() - 1), values.size(), size_t{1} << 20));
    }
    EXPECT_FALSE(wire::unpack_series(bytes, values.size() + 1, size_t{1} << 20));
  }
  EXPECT_LT(wire::pack_series(std::vector<std::string_view>(1000, "the same of all")).size(), 24U);
}

TEST(Series, DoesNotGrowBeyondItsBound) {
  // Each value is twice the one before it: prefix and suffix of it.
  wire::Writer out;
  out.compact(1).compact(0).compact(0).compact(1).raw("x");
  for (uint32_t size = 1; size <= (1U << 25); size *= 2) out.compact(1).compact(size).compact(0).compact(0);
  EXPECT_FALSE(wire::unpack_series(out.view(), 27, size_t{1} << 30)) << "a prefix with nothing new is no longer";
  wire::Writer many;
  many.compact(60'000).compact(0).compact(0).compact(1000).raw(std::string(1000, 'x'));
  EXPECT_FALSE(wire::unpack_series(many.view(), 60'000, size_t{1} << 20));
  EXPECT_TRUE(wire::unpack_series(many.view(), 60'000, size_t{1} << 26));
}

}  // namespace
}  // namespace hocket::bringup
