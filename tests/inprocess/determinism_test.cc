// Determinism R2 and R3: the bits of an element are those of the canonical fold, whatever the size of the call, the
// element's place, the planner, the transport and the placement of the ranks. And how the class is agreed upon.
#include <cmath>
#include <cstring>
#include <random>

#include "base/types.h"
#include "comm/children.h"
#include "comm/fused.h"
#include "inprocess/world.h"
#include "unit/kernels_reference.h"

namespace hocket::test {
namespace {

using kernels::Bytes;

// What all calls of a test take their elements from: so many of each rank, and their canonical fold.
constexpr uint64_t kElems = 4000;

struct Data {
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;
  std::vector<Bytes> in;  // by rank
  Bytes folded;           // by the reference: all operands in the order of ranks, one rounding
  uint64_t size() const { return type_size(type); }
};

template <class T>
void put(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Both signs, a few orders of magnitude: most sums round at every step.
void put_value(unsigned char* at, hktDataType_t type, std::mt19937_64& rng) {
  const double sign = rng() % 2 != 0 ? 1.0 : -1.0;
  const double value = sign * std::ldexp(1.0 + static_cast<double>(rng() >> 11) * 0x1p-53, static_cast<int>(rng() % 8));
  switch (type) {
    case hktFloat32:
      return put(at, static_cast<float>(value));
    case hktFloat64:
      return put(at, value);
    case hktFloat16:
      return put(at, static_cast<uint16_t>(kernels::encode(kernels::kHalf, static_cast<float>(value))));
    case hktBfloat16:
      return put(at, static_cast<uint16_t>(kernels::encode(kernels::kBrain, static_cast<float>(value))));
    default:
      return;
  }
}

// Every fourth element is as in the tests of kernels: random bits, and the edges of the type.
Data make_data(int n, hktDataType_t type, hktRedOp_t op) {
  std::mt19937_64 rng(static_cast<uint64_t>(type) * 100 + static_cast<uint64_t>(op));
  Data d{type, op, kernels::make_inputs(type, static_cast<size_t>(n), kElems, rng), {}};
  for (Bytes& in : d.in)
    for (uint64_t i = 0; i < kElems; ++i)
      if (i % 4 != 0) put_value(&in[i * d.size()], type, rng);
  d.folded = kernels::reference({type, op, op == hktAvg ? static_cast<uint32_t>(n) : 1}, d.in);
  return d;
}

// Elements [first, first + count) of the data, as one call.
struct Range {
  uint64_t first, count;
};
constexpr Range kRanges[] = {{0, 1}, {5, 7}, {17, 100}, {1, 1000}, {7, 3333}, {2999, 300}, {0, kElems}};

// The number of elements whose bits are not those of the canonical fold.
uint64_t differing(const Data& d, const Bytes& got, Range range) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < range.count; ++i)
    wrong += std::memcmp(&got[i * d.size()], &d.folded[(range.first + i) * d.size()], d.size()) != 0;
  return wrong;
}

Bytes part(const Data& d, int rank, Range range) {
  const Bytes& all = d.in[static_cast<size_t>(rank)];
  return {all.begin() + static_cast<ptrdiff_t>(range.first * d.size()),
          all.begin() + static_cast<ptrdiff_t>((range.first + range.count) * d.size())};
}

uint64_t all_reduce_differs(Communicator& comm, const Data& d, Range range, bool in_place) {
  Bytes in = part(d, comm.rank(), range), out(in.size());
  if (in_place) out = in;
  const Status s = comm.all_reduce(in_place ? out.data() : in.data(), out.data(), range.count, d.type, d.op);
  EXPECT_TRUE(s.ok()) << s.error().text;
  return differing(d, out, range);
}

uint64_t reduce_differs(Communicator& comm, const Data& d, Range range, int root) {
  Bytes in = part(d, comm.rank(), range), out(in.size());
  const Status s = comm.reduce({in.data(), out.data(), range.count, d.type}, d.op, root);
  EXPECT_TRUE(s.ok()) << s.error().text;
  return comm.rank() == root ? differing(d, out, range) : 0;
}

// The range in equal blocks, what is left over goes nowhere.
uint64_t reduce_scatter_differs(Communicator& comm, const Data& d, Range range, bool in_place) {
  const auto n = static_cast<uint64_t>(comm.size()), me = static_cast<uint64_t>(comm.rank());
  const uint64_t block = range.count / n;
  Bytes in = part(d, comm.rank(), range), out(block * d.size());
  unsigned char* to = in_place ? in.data() + me * block * d.size() : out.data();
  const Status s = comm.reduce_scatter({in.data(), to, block, d.type}, d.op);
  EXPECT_TRUE(s.ok()) << s.error().text;
  return differing(d, Bytes(to, to + block * d.size()), {range.first + me * block, block});
}

// In blocks that grow, the first one empty.
uint64_t reduce_scatter_v_differs(Communicator& comm, const Data& d, Range range) {
  const auto n = static_cast<uint64_t>(comm.size()), me = static_cast<uint64_t>(comm.rank());
  std::vector<size_t> counts;
  uint64_t left = range.count, mine = 0;
  for (uint64_t r = 0; r < n; ++r) {
    counts.push_back(r + 1 == n ? left : std::min(left, range.count * r / (n * n)));
    if (r < me) mine += counts.back();
    left -= counts.back();
  }
  Bytes in = part(d, comm.rank(), range), out(counts[me] * d.size());
  const Status s = comm.reduce_scatter_v({in.data(), out.data(), counts.data(), nullptr, d.type}, d.op);
  EXPECT_TRUE(s.ok()) << s.error().text;
  return differing(d, out, {range.first + mine, counts[me]});
}

// The range as a list of two buffers, in the other order: fused or not, an element's bits are the same.
uint64_t list_differs(Communicator& comm, const Data& d, Range range) {
  const Bytes in = part(d, comm.rank(), range);
  Bytes out(in.size());
  const uint64_t half = range.count / 2 * d.size();
  const void* ins[] = {in.data() + half, in.data()};
  void* outs[] = {out.data() + half, out.data()};
  const size_t counts[] = {range.count - range.count / 2, range.count / 2};
  const Status s = all_reduce_list(comm, {ins, outs, counts, 2, d.type}, d.op);
  EXPECT_TRUE(s.ok()) << s.error().text;
  return differing(d, out, range);
}

// All collectives that reduce, over all ranges.
uint64_t all_differ(Communicator& comm, const Data& d) {
  uint64_t wrong = 0;
  int root = 0;
  for (const Range range : kRanges) {
    wrong += all_reduce_differs(comm, d, range, false) + all_reduce_differs(comm, d, range, true);
    wrong += reduce_differs(comm, d, range, root++ % comm.size());
    wrong += reduce_scatter_differs(comm, d, range, false) + reduce_scatter_differs(comm, d, range, true);
    wrong += reduce_scatter_v_differs(comm, d, range) + list_differs(comm, d, range);
  }
  return wrong;
}

struct Where {
  const char* name;
  const char* transport;
  int hosts;
  bool one_by_one, small;
};
constexpr Where kPlaces[] = {{"Shm", "shm", 1, false, false},      {"ShmSmall", "shm", 1, false, true},
                             {"Tcp", "tcp", 1, false, false},      {"TcpSmall", "tcp", 1, false, true},
                             {"Mixed", "auto", 2, false, false},   {"MixedOneByOne", "auto", 2, true, false},
                             {"HostsOfOne", "auto", 5, true, true}};

WorldSpec world(const Where& where, int n, hktDeterminism_t determinism, const std::string& algo) {
  WorldSpec spec;
  spec.n = n;
  spec.transport = where.transport;
  spec.hosts = where.hosts;
  spec.one_by_one = where.one_by_one;
  spec.determinism = determinism;
  spec.algo = algo;
  if (where.small) spec.geometry = small_rings();
  return spec;
}

class Canonical : public testing::TestWithParam<Where> {};

TEST_P(Canonical, BitsDependOnTheElementsAlone) {
  for (const int n : {3, 5}) {
    std::vector<Data> data;
    for (const hktDataType_t type : {hktFloat32, hktFloat16, hktBfloat16, hktFloat8e5m2})
      data.push_back(make_data(n, type, hktSum));
    data.push_back(make_data(n, hktBfloat16, hktAvg));
    data.push_back(make_data(n, hktFloat64, hktProd));
    for (const char* algo : {"", "one_shot", "two_shot", "gather_reduce"}) {
      const auto determinism = n == 3 ? HKT_DETERMINISM_R2 : HKT_DETERMINISM_R3;
      run_world(world(GetParam(), n, determinism, algo), [&](Communicator& comm, int) {
        for (const Data& d : data)
          EXPECT_EQ(all_differ(comm, d), 0u)
              << n << " ranks, " << type_name(d.type) << " " << op_name(d.op) << " " << algo;
      });
    }
  }
}

// What R1 does with the same data, so that the test above can fail: it leaves the choice, and other planners fold
// otherwise.
TEST(Determinism, TheDataTellsOneFoldFromAnother) {
  for (const char* algo : {"ring", "recursive_doubling", "double_tree", "circulant"}) {
    run_world(world(kPlaces[0], 5, HKT_DETERMINISM_R1, algo), [&](Communicator& comm, int) {
      for (const hktDataType_t type : {hktFloat32, hktFloat64, hktFloat16, hktBfloat16})
        EXPECT_GT(all_reduce_differs(comm, make_data(5, type, hktSum), {0, kElems}, false), kElems / 20)
            << algo << " " << type_name(type);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Canonical, testing::ValuesIn(kPlaces),
                         [](const auto& place) { return std::string(place.param.name); });

// Brings ranks up with classes of their own and returns what each was told, "" for good.
std::vector<std::string> told(const std::vector<hktDeterminism_t>& classes, const std::string& algo) {
  hktUniqueId id;
  EXPECT_TRUE(make_unique_id(&id).ok());
  std::vector<std::string> texts(classes.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < classes.size(); ++rank)
    threads.emplace_back([&, rank] {
      const auto n = static_cast<int>(classes.size());
      const auto made = join(id, world(kPlaces[0], n, classes[rank], algo), static_cast<int>(rank));
      if (!made.ok()) texts[rank] = made.error().text;
    });
  for (std::thread& t : threads) t.join();
  return texts;
}

TEST(Determinism, RanksThatDisagreeAreToldSo) {
  const auto texts = told({HKT_DETERMINISM_R2, HKT_DETERMINISM_R2, HKT_DETERMINISM_R1}, "");
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    EXPECT_NE(texts[rank].find("determinism is R"), std::string::npos) << rank << ": " << texts[rank];
    EXPECT_NE(texts[rank].find("rank 2"), std::string::npos) << rank << ": " << texts[rank];
  }
}

TEST(Determinism, TheEnvironmentSaysItWhereTheCallerDoesNot) {
  const auto made = [](const CommSettings& settings) {
    hktUniqueId id;
    EXPECT_TRUE(make_unique_id(&id).ok());
    const Deadline deadline = Deadline::in_ms(30'000);
    auto rendezvous = Rendezvous::open(id, 1, 0, deadline);
    EXPECT_TRUE(rendezvous.ok());
    return bring_up(**rendezvous, settings, deadline);
  };
  const auto is = [&](const CommSettings& settings) {
    auto comm = made(settings);
    EXPECT_TRUE(comm.ok()) << comm.error().text;
    return (*comm)->parts().determinism;
  };
  EXPECT_EQ(is({}), HKT_DETERMINISM_R1);
  ASSERT_EQ(setenv("HOCKET_DETERMINISM", "R3", 1), 0);
  CommSettings r2;
  r2.determinism = HKT_DETERMINISM_R2;
  EXPECT_EQ(is({}), HKT_DETERMINISM_R3);
  EXPECT_EQ(is(r2), HKT_DETERMINISM_R2);
  ASSERT_EQ(setenv("HOCKET_DETERMINISM", "R5", 1), 0);
  const auto wrong = made({});
  ASSERT_EQ(unsetenv("HOCKET_DETERMINISM"), 0);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().text.find("HOCKET_DETERMINISM is 'R5'"), std::string::npos) << wrong.error().text;
}

TEST(Determinism, APlannerWithoutTheClassEndsBringUp) {
  for (const std::string& text : told({HKT_DETERMINISM_R3, HKT_DETERMINISM_R3}, "ring"))
    EXPECT_NE(text.find("all_reduce by ring"), std::string::npos) << text;
}

CommSettings wish(hktDeterminism_t determinism) {
  CommSettings s;
  s.determinism = determinism;
  return s;
}

TEST(Determinism, AChildHasItsParentsClassUnlessItIsToldAnother) {
  run_world(world(kPlaces[0], 4, HKT_DETERMINISM_R2, ""), [](Communicator& comm, int rank) {
    const auto is = [](Result<std::unique_ptr<Communicator>> made, hktDeterminism_t expected) {
      ASSERT_TRUE(made.ok()) << made.error().text;
      EXPECT_EQ((*made)->parts().determinism, expected);
    };
    is(duplicate(comm, {}), HKT_DETERMINISM_R2);
    // Each color its own.
    is(split(comm, {rank % 2, 0}, wish(rank % 2 == 0 ? HKT_DETERMINISM_R1 : HKT_DETERMINISM_R3)),
       rank % 2 == 0 ? HKT_DETERMINISM_R1 : HKT_DETERMINISM_R3);
    is(create_child(comm, {3, 2, 1, 0}, 0, wish(HKT_DETERMINISM_R4)), HKT_DETERMINISM_R4);
  });
}

TEST(Determinism, ChildrenThatDisagreeAreNotMadeAndTheParentLivesOn) {
  run_world(world(kPlaces[0], 3, HKT_DETERMINISM_R1, ""), [](Communicator& comm, int rank) {
    const auto refused = [&](const Result<std::unique_ptr<Communicator>>& made) {
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.error().code, hktInvalidUsage);
      EXPECT_EQ(made.error().text, "determinism is R1 on rank 0 and R2 on rank 1; it must be the same on all ranks");
    };
    const CommSettings mine = rank == 1 ? wish(HKT_DETERMINISM_R2) : CommSettings{};
    refused(split(comm, {0, 0}, mine));
    refused(duplicate(comm, mine));
    refused(create_child(comm, {0, 1, 2}, 7, mine));
    int32_t one = 1;
    const Status s = comm.all_reduce(&one, &one, 1, hktInt32, hktSum);
    EXPECT_TRUE(s.ok()) << s.error().text;
    EXPECT_EQ(one, 3);
  });
}

}  // namespace
}  // namespace hocket::test
