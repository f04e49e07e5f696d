// Every collective over every transport, planner, number of ranks and boundary count, against a scalar reference.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "algorithms/catalog.h"
#include "base/types.h"
#include "conformance/call_check.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

// Counts around every edge: a cache line, the inline payload, a slot (256 bytes = 64 floats), a round of n chunks,
// several. A block knows no chunks, but its round is a fourth of a slot where four blocks share a message.
std::vector<uint64_t> counts(Collective collective, int n) {
  const auto u = static_cast<uint64_t>(n);
  if (layout(collective) == Layout::blocks)
    return {0, 1, 2, 3, 13, 14, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 200};
  return {0,   1,   2,          3,      13,         14,         15,     16,         17,          63,          64,  65,
          127, 129, 16 * u - 1, 16 * u, 16 * u + 1, 64 * u - 1, 64 * u, 64 * u + 1, 128 * u + 5, 640 * u + 1, 1000};
}

// Planners by HOCKET_ALGO, the first being the static choice; each planner of the catalog is in one of them.
constexpr std::array kAlgos = {"",
                               "flat,chain,ring,bruck",
                               "recursive_doubling,binomial,direct",
                               "circulant,one_shot,scatter_all_gather,pairwise",
                               "two_shot,flat",
                               "double_tree",
                               "circulant",
                               "nhr,halving_doubling",
                               "pat4,swing",
                               "nhr,pat1",
                               "bidirectional_ring",
                               "gather_reduce"};

const CatalogEntry* forced(Collective collective, const char* algo) {
  const CatalogEntry* planner = nullptr;
  for (std::string_view rest = algo; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (const CatalogEntry* e = find_planner(collective, rest.substr(0, comma)); e != nullptr) planner = e;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return planner;
}

TEST(CollectiveSpecs, HaveEveryPlanner) {
  std::set<const CatalogEntry*> covered;
  for (const char* algo : kAlgos)
    for (uint32_t c = 0; c < kCollectives; ++c) covered.insert(forced(static_cast<Collective>(c), algo));
  for (const CatalogEntry& e : catalog()) {
    if (e.collective == Collective::barrier) continue;
    EXPECT_EQ(covered.count(&e), 1u) << collective_name(e.collective) << " " << e.name;
  }
}

class Collectives : public testing::TestWithParam<WorldSpec> {};

TEST_P(Collectives, MatchTheReference) {
  run_world(GetParam(), [](Communicator& comm, int) {
    const char* algo = GetParam().algo.c_str();
    uint32_t salt = 0;
    for (const Kind& kind : all_kinds()) {
      const CatalogEntry* planner = forced(kind.collective, algo);
      if (*algo != '\0' && planner == nullptr) continue;  // nothing that the static choice has not done
      if (planner != nullptr) {
        ASSERT_STREQ(comm.planner(kind.collective, 1000), planner->name);
      }
      each_trial(kind, counts(kind.collective, comm.size()), comm.size(), salt, [&](Trial& t) { check_call(comm, t); });
      if (testing::Test::HasFatalFailure()) return;
      const Status s = comm.barrier();
      ASSERT_TRUE(s.ok()) << s.error().text;
    }
  });
}

std::vector<WorldSpec> specs() {
  std::vector<WorldSpec> all;
  const std::vector<int> sizes = {1, 2, 3, 4, 5, 7, 8};
  const auto add = [&](int n, const char* transport, int hosts, const char* algo) {
    WorldSpec s;
    s.n = n;
    s.transport = transport;
    s.hosts = hosts;
    s.algo = algo;
    s.geometry = small_rings();
    all.push_back(s);
  };
  for (const char* algo : kAlgos) {
    for (const int n : sizes) {
      add(n, "shm", 1, algo);
      if (n > 1) add(n, "tcp", 1, algo);
    }
    add(4, "auto", 2, algo);
    add(5, "auto", 3, algo);
  }
  return all;
}

std::string spec_label(const testing::TestParamInfo<WorldSpec>& info) {
  std::string label = info.param.label();
  for (char& c : label)
    if (c == ',') c = '_';
  return label;
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(specs()), spec_label);

// Slots that are large enough for messages to be sent from where the input is; the input is overwritten as soon as the
// call has returned, while the last bytes may still be on their way.
TEST(CollectivesLent, AnInputMayChangeAfterTheCall) {
  for (const char* algo :
       {"one_shot,chain,direct,flat", "two_shot,binomial,pairwise", "ring", "double_tree", "circulant"}) {
    WorldSpec spec;
    spec.n = 3;
    spec.transport = "tcp";
    spec.algo = algo;
    spec.geometry = RingGeometry{2, 16 * 1024, 1};
    run_world(spec, [](Communicator& comm, int) {
      for (uint32_t salt = 0; salt < 12; ++salt) {
        for (const Kind& kind : all_kinds()) {
          Trial t;
          t.collective = kind.collective;
          t.table = kind.table;
          t.count = 20'000 + 1000 * salt;
          t.in_place = salt % 3 == 2;
          t.root = static_cast<int>(salt % 3);
          t.salt = salt;
          check_call(comm, t);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    });
  }
}

// Every type and operation at three ranks, and every type in what only moves data.
TEST(CollectiveTypes, EveryTypeAndOperation) {
  for (const char* transport : {"shm", "tcp"}) {
    WorldSpec spec;
    spec.n = 3;
    spec.transport = transport;
    spec.geometry = small_rings();
    run_world(spec, [](Communicator& comm, int) {
      uint32_t salt = 0;
      for (const Kind& kind : all_kinds()) {
        for (const hktDataType_t type : kAllTypes) {
          for (const hktRedOp_t op : kAllOps) {
            if (reduces(kind.collective) ? unsupported(type, op) != nullptr : op != hktSum) continue;
            Trial t;
            t.collective = kind.collective;
            t.table = kind.table;
            t.count = 50;
            t.type = type;
            t.op = op;
            t.salt = ++salt;
            t.in_place = salt % 2 == 0;
            t.root = static_cast<int>(salt % 3);
            check_call(comm, t);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    });
  }
}

// The rest, any two values of any two of these together in some call: collective, transport, ranks, type, count,
// planner, slots, place, root. HOCKET_TEST_SEED repeats a run.
struct Factors {
  enum { kKind, kTransport, kRanks, kAlgo, kGeometry, kType, kCount, kInPlace, kRoot, kOp, kFactors };
  static const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = all_kinds();
    return all;
  }
  static constexpr std::array<const char*, 4> kTransports = {"shm", "tcp", "auto", "auto"};  // two hosts, three hosts
  static constexpr std::array kSizes = {1, 2, 3, 4, 5, 7, 8};
  static constexpr std::array<uint64_t, 7> kCounts = {0, 1, 17, 100, 1000, 5000, 9001};
  static constexpr std::array kOps = {hktSum, hktProd, hktMax, hktAvg, hktBitXor, hktLogicalAnd};
  static std::array<size_t, kFactors> levels() {
    return {kinds().size(), kTransports.size(), kSizes.size(), kAlgos.size(), 2, kAllTypes.size(), kCounts.size(), 2, 3,
            kOps.size()};
  }
};
using Row = std::array<size_t, Factors::kFactors>;

// Rows such that each pair of levels of two factors is in one of them: always the best of some random ones.
std::vector<Row> pairwise(std::mt19937& random) {
  const auto levels = Factors::levels();
  using Pair = std::array<size_t, 4>;
  std::set<Pair> open;
  for (size_t f = 0; f < levels.size(); ++f)
    for (size_t g = f + 1; g < levels.size(); ++g)
      for (size_t a = 0; a < levels[f]; ++a)
        for (size_t b = 0; b < levels[g]; ++b) open.insert({f, a, g, b});
  std::vector<Row> rows;
  while (!open.empty()) {
    Row best{};
    size_t most = 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Row row{};
      for (size_t f = 0; f < row.size(); ++f) row[f] = random() % levels[f];
      const Pair& must = *std::next(open.begin(), static_cast<long>(random() % std::min<size_t>(open.size(), 20)));
      row[must[0]] = must[1];
      row[must[2]] = must[3];
      size_t gain = 0;
      for (size_t f = 0; f < row.size(); ++f)
        for (size_t g = f + 1; g < row.size(); ++g) gain += open.count({f, row[f], g, row[g]});
      if (gain > most) {
        most = gain;
        best = row;
      }
    }
    for (size_t f = 0; f < best.size(); ++f)
      for (size_t g = f + 1; g < best.size(); ++g) open.erase({f, best[f], g, best[g]});
    rows.push_back(best);
  }
  return rows;
}

TEST(CollectivePairs, MatchTheReference) {
  const char* given = std::getenv("HOCKET_TEST_SEED");
  const uint32_t seed =
      given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::mt19937 random(seed);
  const std::vector<Row> rows = pairwise(random);
  std::printf("%zu rows, HOCKET_TEST_SEED=%u\n", rows.size(), seed);
  using F = Factors;
  // One communicator for all rows that differ in calls only.
  std::map<std::array<size_t, 4>, std::vector<Row>> worlds;
  for (const Row& r : rows) worlds[{r[F::kTransport], r[F::kRanks], r[F::kAlgo], r[F::kGeometry]}].push_back(r);
  for (const auto& [world, calls] : worlds) {
    WorldSpec spec;
    spec.transport = F::kTransports[world[0]];
    spec.n = F::kSizes[world[1]];
    spec.hosts = std::min(spec.n, world[0] < 2 ? 1 : static_cast<int>(world[0]));
    spec.algo = kAlgos[world[2]];
    spec.geometry = world[3] == 0 ? small_rings() : RingGeometry{4, 4096, 2};
    const std::vector<Row>& list = calls;
    run_world(spec, [&list](Communicator& comm, int) {
      uint32_t salt = 0;
      for (const Row& r : list) {
        Trial t;
        t.collective = F::kinds()[r[F::kKind]].collective;
        t.table = F::kinds()[r[F::kKind]].table;
        t.count = F::kCounts[r[F::kCount]];
        t.in_place = r[F::kInPlace] == 1;
        t.root = r[F::kRoot] == 0 ? 0 : r[F::kRoot] == 1 ? comm.size() - 1 : comm.size() / 2;
        t.type = kAllTypes[r[F::kType]];
        t.op = F::kOps[r[F::kOp]];
        if (unsupported(t.type, t.op) != nullptr) t.op = hktSum;
        t.salt = ++salt;
        t.guards = 1 + salt % 3;
        check_call(comm, t);
        if (testing::Test::HasFatalFailure()) return;
      }
    });
    ASSERT_FALSE(HasFailure()) << spec.label() << ", HOCKET_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace hocket::test
