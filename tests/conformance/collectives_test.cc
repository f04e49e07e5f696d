// Every collective over every transport, planner, number of ranks and boundary count, against a scalar reference.
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/types.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

// Small integers: float sums of them are exact, whatever the order.
float input(int rank, uint64_t i, uint32_t salt) {
  return static_cast<float>((static_cast<uint64_t>(rank) * 31 + i * 7 + salt * 13) % 64);
}

float expected_sum(int n, uint64_t i, uint32_t salt) {
  float sum = 0;
  for (int r = 0; r < n; ++r) sum += input(r, i, salt);
  return sum;
}

// Counts around every edge: a cache line, the inline payload, a slot (256 bytes = 64 floats), a round of n chunks,
// several.
std::vector<uint64_t> counts(int n) {
  const auto u = static_cast<uint64_t>(n);
  std::vector<uint64_t> c = {0,          1,          2,      3,          13,          14,          15,         16,
                             17,         63,         64,     65,         127,         129,         16 * u - 1, 16 * u,
                             16 * u + 1, 64 * u - 1, 64 * u, 64 * u + 1, 128 * u + 5, 640 * u + 1, 1000};
  return c;
}

constexpr float kGuard = -12345.0f;

void check_all_reduce(Communicator& comm, uint64_t count, bool in_place, uint32_t salt) {
  const int n = comm.size();
  // One guard element on both sides, and a start that is not aligned to anything.
  std::vector<float> in(count + 2, kGuard), out(count + 2, kGuard);
  for (uint64_t i = 0; i < count; ++i) in[i + 1] = input(comm.rank(), i, salt);
  if (in_place) out = in;
  const Status s =
      comm.all_reduce(in_place ? out.data() + 1 : in.data() + 1, out.data() + 1, count, hktFloat32, hktSum);
  ASSERT_TRUE(s.ok()) << s.error().text;
  ASSERT_EQ(out.front(), kGuard);
  ASSERT_EQ(out.back(), kGuard);
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(out[i + 1], expected_sum(n, i, salt)) << "rank " << comm.rank() << " element " << i << " of " << count;
    if (!in_place) {
      ASSERT_EQ(in[i + 1], input(comm.rank(), i, salt)) << "the input was changed";
    }
  }
}

void check_broadcast(Communicator& comm, uint64_t count, int root, bool in_place, uint32_t salt) {
  std::vector<float> in(count + 2, kGuard), out(count + 2, kGuard);
  const bool is_root = comm.rank() == root;
  for (uint64_t i = 0; i < count; ++i) in[i + 1] = input(root, i, salt);
  if (in_place && is_root) out = in;
  const void* send = !is_root ? nullptr : in_place ? out.data() + 1 : in.data() + 1;
  const Status s = comm.broadcast(send, out.data() + 1, count, hktFloat32, root);
  ASSERT_TRUE(s.ok()) << s.error().text;
  ASSERT_EQ(out.front(), kGuard);
  ASSERT_EQ(out.back(), kGuard);
  for (uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(out[i + 1], input(root, i, salt)) << "rank " << comm.rank() << " element " << i << " of " << count;
}

class Collectives : public testing::TestWithParam<WorldSpec> {};

TEST_P(Collectives, MatchTheReference) {
  run_world(GetParam(), [](Communicator& comm, int) {
    uint32_t salt = 0;
    for (const uint64_t count : counts(comm.size())) {
      for (const bool in_place : {false, true}) {
        check_all_reduce(comm, count, in_place, ++salt);
        check_broadcast(comm, count, static_cast<int>(salt) % comm.size(), in_place, salt);
        if (testing::Test::HasFatalFailure()) return;
      }
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
  for (const char* algo : {"", "ring,chain", "recursive_doubling,binomial", "one_shot", "two_shot", "double_tree",
                           "circulant,scatter_all_gather"}) {
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
  for (const char* algo : {"one_shot,chain", "two_shot,binomial", "ring", "double_tree"}) {
    WorldSpec spec;
    spec.n = 3;
    spec.transport = "tcp";
    spec.algo = algo;
    spec.geometry = RingGeometry{2, 16 * 1024, 1};
    run_world(spec, [](Communicator& comm, int) {
      for (uint32_t salt = 0; salt < 12; ++salt) {
        check_all_reduce(comm, 30'000 + 1000 * salt, salt % 3 == 2, salt);
        check_broadcast(comm, 20'000 + 1000 * salt, static_cast<int>(salt % 3), salt % 2 == 1, salt);
        if (testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

// Every type and operation at three ranks, against the same fold in scalar code: the values are small enough to be
// exact.
template <class T>
void check_type(Communicator& comm, hktDataType_t type, hktRedOp_t op) {
  constexpr uint64_t kCount = 100;
  std::vector<T> data(kCount);
  const int n = comm.size();
  const auto value = [](int rank, uint64_t i) { return static_cast<T>(1 + (static_cast<uint64_t>(rank) + i) % 3); };
  for (uint64_t i = 0; i < kCount; ++i) data[i] = value(comm.rank(), i);
  const Status s = comm.all_reduce(data.data(), data.data(), kCount, type, op);
  ASSERT_TRUE(s.ok()) << s.error().text;
  for (uint64_t i = 0; i < kCount; ++i) {
    T want = value(0, i);
    for (int r = 1; r < n; ++r) {
      const T v = value(r, i);
      switch (op) {
        case hktSum:
        case hktAvg:
          want = static_cast<T>(want + v);
          break;
        case hktProd:
          want = static_cast<T>(want * v);
          break;
        case hktMax:
          want = v > want ? v : want;
          break;
        case hktMin:
          want = v < want ? v : want;
          break;
        default:
          FAIL() << op_name(op) << " has no reference here";
      }
    }
    if (op == hktAvg) want = static_cast<T>(want / static_cast<T>(n));
    ASSERT_EQ(data[i], want) << type_name(type) << " " << op_name(op) << " element " << i;
  }
}

// 16-bit floats as bits of the small integers they hold here.
uint16_t bits16(hktDataType_t type, float v) {
  uint32_t u = 0;
  std::memcpy(&u, &v, sizeof u);
  if (type == hktBfloat16) return static_cast<uint16_t>(u >> 16);
  return v == 0 ? 0 : static_cast<uint16_t>((((u >> 23) - 127 + 15) << 10) | ((u >> 13) & 0x3ff));
}

void check_16bit(Communicator& comm, hktDataType_t type, hktRedOp_t op) {
  constexpr uint64_t kCount = 100;
  std::vector<uint16_t> data(kCount);
  // Multiples of three: the average of three ranks is whole.
  const auto value = [](int rank, uint64_t i) {
    return static_cast<float>(3 * (1 + (static_cast<uint64_t>(rank) + i) % 3));
  };
  for (uint64_t i = 0; i < kCount; ++i) data[i] = bits16(type, value(comm.rank(), i));
  const Status s = comm.all_reduce(data.data(), data.data(), kCount, type, op);
  ASSERT_TRUE(s.ok()) << s.error().text;
  for (uint64_t i = 0; i < kCount; ++i) {
    float want = value(0, i);
    for (int r = 1; r < comm.size(); ++r) {
      const float v = value(r, i);
      want = op == hktProd ? want * v : op == hktMax ? std::max(want, v) : op == hktMin ? std::min(want, v) : want + v;
    }
    if (op == hktAvg) want /= static_cast<float>(comm.size());
    ASSERT_EQ(data[i], bits16(type, want)) << type_name(type) << " " << op_name(op) << " element " << i;
  }
}

TEST(CollectiveTypes, EveryTypeAndOperation) {
  WorldSpec spec;
  spec.n = 3;
  spec.geometry = small_rings();
  run_world(spec, [](Communicator& comm, int) {
    for (const hktRedOp_t op : {hktSum, hktProd, hktMax, hktMin, hktAvg}) {
      check_type<int8_t>(comm, hktInt8, op);
      check_type<uint8_t>(comm, hktUint8, op);
      check_type<int16_t>(comm, hktInt16, op);
      check_type<uint16_t>(comm, hktUint16, op);
      check_type<int32_t>(comm, hktInt32, op);
      check_type<uint32_t>(comm, hktUint32, op);
      check_type<int64_t>(comm, hktInt64, op);
      check_type<uint64_t>(comm, hktUint64, op);
      check_type<float>(comm, hktFloat32, op);
      check_type<double>(comm, hktFloat64, op);
      check_16bit(comm, hktFloat16, op);
      check_16bit(comm, hktBfloat16, op);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace hocket::test
