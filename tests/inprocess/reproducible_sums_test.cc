// Determinism R4: sums of floats have the same bits in whatever order, and among however many ranks, the operands are,
// by every planner and transport, in every way of calling. What they have to be comes from the kernels, run here over
// all operands at once.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "base/types.h"
#include "comm/fused.h"
#include "inprocess/calls.h"
#include "kernels/reproducible.h"
#include "unit/kernels_reference.h"

namespace hocket::test {
namespace {

using kernels::Bytes;

struct Data {
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;
  uint64_t elems = 0;
  std::vector<Bytes> in;  // by rank
  Bytes sum;
  uint64_t size() const { return type_size(type); }
};

// The sum of all operands, by the definition.
Bytes sum_of(hktDataType_t type, const std::vector<Bytes>& src, uint32_t divisor) {
  const kernels::ReproducibleSum sum = kernels::reproducible_sum(type);
  const uint64_t floats = src[0].size() / sum.float_size;
  // Operands are there once more, so that what is computed with begins at a multiple of 8 bytes.
  std::vector<uint64_t> codes(floats, 0), one(floats, 0);
  std::vector<int64_t> total(floats * sum.limbs, 0), part(total.size());
  for (const Bytes& s : src) {
    sum.classify(one.data(), s.data(), floats);
    const void* both[] = {codes.data(), one.data()};
    kernels::fold_kernel(sum.code_type, hktMax).temporal(codes.data(), both, 2, floats, 1);
  }
  for (const Bytes& s : src) {
    sum.quantise(part.data(), s.data(), codes.data(), floats);
    for (size_t i = 0; i < part.size(); ++i) total[i] += part[i];
  }
  Bytes result(src[0].size());
  sum.round(result.data(), total.data(), codes.data(), floats, divisor);
  return result;
}

// Negative zeros, which change no sum.
Bytes nothing(hktDataType_t type, uint64_t elems) {
  const uint64_t size = kernels::reproducible_sum(type).float_size;
  Bytes zeros(elems * type_size(type), 0);
  for (uint64_t end = size; end <= zeros.size(); end += size) zeros[end - 1] = 0x80;
  return zeros;
}

// Three operands, the same for every `n`, on ranks that `turn` chooses. All others have nothing.
Data make_data(int n, hktDataType_t type, hktRedOp_t op, uint64_t elems, uint32_t turn) {
  std::mt19937_64 rng(static_cast<uint64_t>(type) * 1000 + elems);
  std::vector<Bytes> operands = kernels::make_inputs(type, 3, elems, rng);
  if (type == hktFloat32)  // near each other: each order of additions rounds in its own way
    for (Bytes& operand : operands)
      for (uint64_t i = 0; i < elems; i += i % 5 == 0 ? 2 : 1) {
        const float value = static_cast<float>(static_cast<double>(rng() % 2000) / 3 - 300);
        std::memcpy(&operand[i * 4], &value, 4);
      }
  Data d{type, op, elems, {}, {}};
  d.sum = sum_of(type, operands, op == hktAvg ? static_cast<uint32_t>(n) : 1);
  std::vector<Bytes> on(static_cast<size_t>(std::max(n, 3)), nothing(type, elems));
  for (size_t k = 0; k < 3; ++k) on[(k + turn) % on.size()] = operands[turn % 2 == 0 ? k : 2 - k];
  on.resize(static_cast<size_t>(n));
  d.in = std::move(on);
  return d;
}

uint64_t differing(const Data& d, const unsigned char* got, uint64_t first, uint64_t count) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; ++i)
    wrong += std::memcmp(got + i * d.size(), &d.sum[(first + i) * d.size()], d.size()) != 0;
  return wrong;
}

// Every collective that sums, in place or not; the first element of the vector is element `first` of the data.
void check_all(Communicator& comm, const Data& d, uint64_t first, bool in_place) {
  const auto n = static_cast<uint64_t>(comm.size()), me = static_cast<uint64_t>(comm.rank());
  const uint64_t count = d.elems - first, block = count / n;
  const Bytes& all = d.in[me];
  const auto what = [&] {
    return format("%s %s, %llu elements from %llu on, %d ranks, in place %d", type_name(d.type), op_name(d.op),
                  static_cast<unsigned long long>(count), static_cast<unsigned long long>(first), comm.size(),
                  in_place);
  };
  Bytes in, out;
  const auto fresh = [&](uint64_t out_elems) {
    in.assign(all.begin() + static_cast<ptrdiff_t>(first * d.size()), all.end());
    out.assign(out_elems * d.size(), 0x5a);
  };
  fresh(count);
  unsigned char* to = in_place ? in.data() : out.data();
  good(comm.all_reduce(in.data(), to, count, d.type, d.op));
  EXPECT_EQ(differing(d, to, first, count), 0u) << "all_reduce " << what();

  const auto root = static_cast<int>(first % n);
  fresh(count);
  to = in_place ? in.data() : out.data();
  good(comm.reduce({in.data(), to, count, d.type}, d.op, root));
  if (comm.rank() == root) {
    EXPECT_EQ(differing(d, to, first, count), 0u) << "reduce " << what();
  } else if (!in_place) {
    EXPECT_EQ(out, Bytes(out.size(), 0x5a)) << "reduce " << what();
  }

  fresh(block);
  to = in_place ? in.data() + me * block * d.size() : out.data();
  good(comm.reduce_scatter({in.data(), to, block, d.type}, d.op));
  EXPECT_EQ(differing(d, to, first + me * block, block), 0u) << "reduce_scatter " << what();

  // Blocks that grow, rank 0 has none; the last one lies first.
  std::vector<size_t> counts, displs;
  for (uint64_t r = 0; r < n; ++r) counts.push_back(count * r / (n * n));
  for (uint64_t r = 0; r < n; ++r) displs.push_back(r + 1 == n ? 0 : counts[n - 1] + r * counts[n - 1]);
  fresh(counts[me]);
  to = in_place ? in.data() + displs[me] * d.size() : out.data();
  good(comm.reduce_scatter_v({in.data(), to, counts.data(), displs.data(), d.type}, d.op));
  EXPECT_EQ(differing(d, to, first + displs[me], counts[me]), 0u) << "reduce_scatter_v " << what();
}

WorldSpec r4(int n, const Where& where, const std::string& algo) {
  WorldSpec spec;
  spec.n = n;
  spec.transport = where.transport;
  spec.hosts = where.hosts;
  spec.determinism = HKT_DETERMINISM_R4;
  spec.algo = algo;
  if (where.small) spec.geometry = small_rings();
  return spec;
}

class ReproducibleCalls : public Places {};

TEST_P(ReproducibleCalls, OrderAndNumberOfRanksDoNotShow) {
  struct Case {
    int n;
    const char* algo;
  };
  uint32_t turn = 0;
  for (const Case c :
       {Case{3, ""}, {3, "ring"}, {5, "recursive_doubling,chain"}, {8, ""}, {5, "double_tree,circulant"}}) {
    std::vector<Data> data;
    for (const hktDataType_t type : {hktFloat32, hktFloat64, hktFloat16, hktBfloat16, hktComplex64})
      data.push_back(make_data(c.n, type, hktSum, 700, ++turn));
    data.push_back(make_data(c.n, hktFloat32, hktAvg, 700, ++turn));
    data.push_back(make_data(c.n, hktComplex128, hktAvg, 100, ++turn));
    run_world(r4(c.n, GetParam(), c.algo), [&](Communicator& comm, int) {
      for (const Data& d : data)
        for (const uint64_t first : {uint64_t{0}, uint64_t{13}}) check_all(comm, d, first, first == 0);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ReproducibleCalls, testing::ValuesIn(kPlaces), place_name);

// More than one piece, and blocks whose shares of a piece are no multiple of anything.
TEST(ReproducibleSums, LargeVectors) {
  for (const int n : {2, 3}) {
    std::vector<Data> data;
    for (const hktDataType_t type : {hktFloat32, hktFloat64, hktBfloat16, hktComplex64})
      data.push_back(make_data(n, type, hktSum, type == hktFloat32 ? 300'001 : 150'001, 0));
    // The third operand of two ranks is no one's.
    for (Data& d : data)
      if (n == 2) d.sum = sum_of(d.type, d.in, 1);
    run_world(r4(n, kPlaces[0], ""), [&](Communicator& comm, int) {
      for (const Data& d : data)
        for (const bool in_place : {false, true}) check_all(comm, d, 0, in_place);
    });
  }
}

// One rank has no one to add to, and rounds all the same: a NaN becomes the one that sums have.
TEST(ReproducibleSums, OfOneRank) {
  Data d = make_data(1, hktFloat32, hktSum, 5000, 0);
  d.sum = sum_of(d.type, d.in, 1);
  run_world(r4(1, kPlaces[0], ""), [&](Communicator& comm, int) { check_all(comm, d, 0, false); });
}

// What R1 makes of the same operands, so that the tests above can fail.
TEST(ReproducibleSums, TheDataTellsOneOrderFromAnother) {
  const Data d = make_data(3, hktFloat32, hktSum, 4000, 0);
  WorldSpec spec = r4(3, kPlaces[0], "ring");
  spec.determinism = HKT_DETERMINISM_R1;
  run_world(spec, [&](Communicator& comm, int rank) {
    Bytes out(d.elems * d.size());
    good(comm.all_reduce(d.in[static_cast<size_t>(rank)].data(), out.data(), d.elems, d.type, d.op));
    EXPECT_GT(differing(d, out.data(), 0, d.elems), 100u);
  });
}

TEST(ReproducibleSums, ByRequestsAndInGroups) {
  const Data d = make_data(4, hktFloat32, hktSum, 3000, 1), e = make_data(4, hktFloat64, hktSum, 500, 2);
  run_world(r4(4, kPlaces[1], ""), [&](Communicator& comm, int rank) {
    const auto me = static_cast<size_t>(rank);
    for (const bool grouped : {false, true}) {
      Bytes d_out(d.sum.size()), e_out(e.sum.size());
      int32_t one = 1;
      hktRequest_t requests[3] = {};
      const auto options = [&](size_t i) { return grouped ? CallOptions{} : into(requests[i]); };
      if (grouped) group_start();
      good(comm.all_reduce(d.in[me].data(), d_out.data(), d.elems, d.type, d.op, options(0)));
      good(comm.all_reduce(&one, &one, 1, hktInt32, hktSum, options(1)));
      good(comm.all_reduce(e.in[me].data(), e_out.data(), e.elems, e.type, e.op, options(2)));
      if (grouped)
        good(group_end(nullptr));
      else
        for (const hktRequest_t r : requests) good(wait(r));
      EXPECT_EQ(d_out, d.sum);
      EXPECT_EQ(e_out, e.sum);
      EXPECT_EQ(one, 4);
    }
  });
}

// Buffers as a fused call has them: some empty, some that share a piece, one that lies in several.
TEST(ReproducibleSums, OfAListOfBuffers) {
  for (const hktDataType_t type : {hktFloat32, hktComplex64}) {
    const Data d = make_data(3, type, hktSum, 160'000, 0);
    run_world(r4(3, kPlaces[0], ""), [&](Communicator& comm, int rank) {
      const Bytes& in = d.in[static_cast<size_t>(rank)];
      Bytes out(in.size());
      std::vector<const void*> ins;
      std::vector<void*> outs;
      std::vector<size_t> counts;
      uint64_t at = 0;
      for (const uint64_t count :
           {uint64_t{0}, uint64_t{1}, uint64_t{999}, uint64_t{150'000}, uint64_t{0}, uint64_t{9'000}}) {
        ins.push_back(&in[at * d.size()]);
        outs.push_back(&out[at * d.size()]);
        counts.push_back(count);
        at += count;
      }
      ASSERT_EQ(at, d.elems);
      good(all_reduce_list(comm, {ins.data(), outs.data(), counts.data(), counts.size(), type}, hktSum));
      EXPECT_EQ(differing(d, out.data(), 0, d.elems), 0u);
      out = in;
      good(all_reduce_list(comm, {outs.data(), outs.data(), counts.data(), counts.size(), type}, hktSum));
      EXPECT_EQ(differing(d, out.data(), 0, d.elems), 0u) << "in place";
      good(all_reduce_list(comm, {nullptr, nullptr, nullptr, 0, type}, hktSum));
    });
  }
}

// Scalars apply before the sum; each product is rounded to the type, as it is without R4.
TEST(ReproducibleSums, OfMultipliedOperands) {
  const Data d = make_data(3, hktBfloat16, hktSum, 2000, 0);
  const uint16_t scalars[] = {0x4040, 0x3e99, 0xc0a0};  // 3, about 0.3, -5
  std::vector<Bytes> products;
  for (size_t r = 0; r < 3; ++r) {
    products.emplace_back(d.in[r].size());
    kernels::scale_kernel(d.type)(products[r].data(), d.in[r].data(), d.elems, &scalars[r]);
  }
  const Bytes expected = sum_of(d.type, products, 1);
  run_world(r4(3, kPlaces[0], ""), [&](Communicator& comm, int rank) {
    const auto me = static_cast<size_t>(rank);
    Operation made;
    made.kind = OpKind::pre_mul_sum;
    made.type = d.type;
    std::memcpy(made.scalar.data(), &scalars[me], 2);
    Result<hktRedOp_t> op = comm.make_op(made);
    ASSERT_TRUE(op.ok());
    Bytes out(d.sum.size());
    good(comm.all_reduce(d.in[me].data(), out.data(), d.elems, d.type, *op));
    EXPECT_EQ(out, expected);
    good(comm.destroy_op(*op));
  });
}

TEST(ReproducibleSums, WhatIsNotServedSaysWhy) {
  run_world(r4(2, kPlaces[0], ""), [](Communicator& comm, int) {
    double x = 1;
    const auto refused = [&](hktDataType_t type, hktRedOp_t op, const char* text) {
      const Status s = comm.all_reduce(&x, &x, 1, type, op);
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, hktInvalidArgument);
      EXPECT_EQ(s.error().text, text);
    };
    refused(hktFloat64, hktProd,
            "determinism R4 has no prod of double: products of floats round at every step, in the order of the ranks");
    refused(
        hktFloat8e4m3, hktSum,
        "determinism R4 has no sum of f8e4m3: 8-bit floats saturate and have no sum that is independent of the order");
    Operation mine;
    mine.kind = OpKind::commutative;
    mine.fn = [](const void*, const void*, void*, size_t, hktDataType_t, void*) {};
    Result<hktRedOp_t> op = comm.make_op(mine);
    ASSERT_TRUE(op.ok());
    refused(hktInt32, *op,
            "determinism R4 has no operation 0 of int32: what a program's own operation makes of another order of its "
            "operands is not known");
    // The rest is independent of the order as it is, and goes on to work.
    double maximum = comm.rank();
    good(comm.all_reduce(&maximum, &maximum, 1, hktFloat64, hktMax));
    EXPECT_EQ(maximum, 1);
    int32_t product = comm.rank() + 2;
    good(comm.all_reduce(&product, &product, 1, hktInt32, hktProd));
    EXPECT_EQ(product, 6);
  });
}

TEST(ReproducibleSums, RanksThatDisagreeAreTold) {
  run_world(r4(3, kPlaces[0], ""), [](Communicator& comm, int rank) {
    std::vector<float> x(11, 1);
    const Status s = comm.all_reduce(x.data(), x.data(), rank == 2 ? 11 : 10, hktFloat32, hktSum);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch);
    for (const char* call : {"all_reduce(count 10, float, sum)", "all_reduce(count 11, float, sum)"})
      EXPECT_NE(s.error().text.find(call), std::string::npos) << s.error().text;
  });
}

}  // namespace
}  // namespace hocket::test
