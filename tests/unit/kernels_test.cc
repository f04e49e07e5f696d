// The reduction kernels against a scalar reference: all types and operations, wherever the elements lie.
#include "kernels_run.h"

namespace hocket::kernels {
namespace {

class Kernels : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(targets()), target_label);

// Two operands: the full product. More: the misalignment goes round with the size and the operand in place.
TEST_P(Kernels, MatchReference) {
  const size_t misalignments[] = {0, 16, 1, 8, 62};
  for (hktDataType_t type : kAllTypes) {
    for (hktRedOp_t op : kAllOps) {
      if (unsupported(type, op) != nullptr) continue;
      for (size_t nsrc : {1, 2, 3, 5, 8}) {
        const Case c{type, op, op == hktAvg ? static_cast<uint32_t>(nsrc) : 1};
        const std::vector<Bytes> src = make_inputs(type, nsrc, kMaxElems, rng_);
        const Bytes expected = reference(c, src);
        size_t turn = 0;
        for (size_t elems : kSizes) {
          for (int in_place = kOutOfPlace; in_place < static_cast<int>(nsrc); ++in_place, ++turn) {
            for (size_t m = 0; m < std::size(misalignments); ++m) {
              if (nsrc != 2 && m != turn % std::size(misalignments)) continue;
              for (Stores stores : kStores) check(c, src, expected, {elems, misalignments[m], stores, in_place});
            }
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Determinism R2 and R3 count on it: however many operands there are, none is rounded before the last one has joined.
TEST_P(Kernels, FoldAnyNumberOfOperandsAtOnce) {
  for (hktDataType_t type : {hktFloat16, hktBfloat16, hktFloat8e5m2, hktFloat32}) {
    for (size_t nsrc : {33, 400}) {
      const Case c{type, hktAvg, static_cast<uint32_t>(nsrc)};
      const std::vector<Bytes> src = make_inputs(type, nsrc, 300, rng_);
      const Bytes expected = reference(c, src);
      for (size_t elems : {1, 7, 300})
        for (Stores stores : kStores) check(c, src, expected, {elems, 8, stores});
    }
  }
}

TEST_P(Kernels, MatchReferenceOnMuchData) {
  for (hktDataType_t type : kAllTypes) {
    const size_t elems = 100000 / type_size(type) + 3;
    const Case c = unsupported(type, hktAvg) != nullptr ? Case{type, hktLogicalXor, 1} : Case{type, hktAvg, 3};
    const std::vector<Bytes> src = make_inputs(type, 2, elems, rng_);
    const Bytes expected = reference(c, src);
    for (size_t misalignment : {0, 24, 3}) {
      for (Stores stores : kStores) check(c, src, expected, {elems, misalignment, stores});
    }
  }
}

TEST_P(Kernels, DivideByAnyDivisor) {
  for (hktDataType_t type : kAllTypes) {
    if (unsupported(type, hktAvg) != nullptr) continue;
    for (uint32_t divisor : {2u, 3u, 7u, 255u, 512u, 70001u, 0x80000001u, 0xffffffffu}) {
      for (size_t nsrc : {1, 2, 4}) {
        const Case c{type, hktAvg, divisor};
        const std::vector<Bytes> src = make_inputs(type, nsrc, kMaxElems, rng_);
        check(c, src, reference(c, src), {kMaxElems, 0, Stores::streaming});
      }
    }
  }
}

// The same bits whatever the order of two operands, also for NaNs of different payloads.
TEST_P(Kernels, AreCommutative) {
  for (hktDataType_t type : kAllTypes) {
    for (hktRedOp_t op : kAllOps) {
      if (op == hktAvg || unsupported(type, op) != nullptr) continue;
      const std::vector<Bytes> src = make_inputs(type, 2, 4000, rng_);
      const std::vector<Bytes> swapped = {src[1], src[0]};
      const Bytes expected = reference({type, op, 1}, src);
      check({type, op, 1}, swapped, expected, {4000, 0, Stores::temporal});
    }
  }
}

TEST_P(Kernels, MinAndMaxIgnoreTheOrderOfOperands) {
  for (hktDataType_t type : kAllTypes) {
    for (hktRedOp_t op : {hktMin, hktMax}) {
      if (unsupported(type, op) != nullptr) continue;
      std::vector<Bytes> src = make_inputs(type, 4, kMaxElems, rng_);
      const Bytes expected = reference({type, op, 1}, src);
      std::sort(src.begin(), src.end());
      do {
        check({type, op, 1}, src, expected, {kMaxElems, 0, Stores::temporal});
      } while (std::next_permutation(src.begin(), src.end()));
    }
  }
}

TEST_P(Kernels, CopyBytes) {
  const Bytes data = make_input(hktUint8, 5000, rng_);
  for (size_t bytes : {0, 1, 2, 15, 16, 63, 64, 65, 127, 255, 256, 257, 300, 511, 1024, 4999, 5000}) {
    for (size_t to : {0, 1, 16, 63}) {
      for (size_t from : {0, 3, 32}) {
        for (Stores stores : kStores) {
          Guarded src(data.data(), bytes, from);
          const Bytes junk(bytes, 0x5a);
          Guarded dst(junk.data(), bytes, to);
          copy(dst.get(), src.get(), bytes, stores);
          EXPECT_TRUE(dst.holds(data.data()) && dst.guards_intact()) << bytes << " bytes from " << from << " to " << to;
        }
      }
    }
  }
  copy(nullptr, nullptr, 0, Stores::streaming);
}

// All pairs of 8-bit operands: what no sample would show.
TEST_P(Kernels, FoldEveryPairOfBytes) {
  Bytes first, second;
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 256; ++k) {
      first.push_back(static_cast<uint8_t>(i));
      second.push_back(static_cast<uint8_t>(k));
    }
  }
  for (hktDataType_t type : kAllTypes) {
    if (type_size(type) != 1) continue;
    for (hktRedOp_t op : kAllOps) {
      if (unsupported(type, op) != nullptr) continue;
      const Case c{type, op, op == hktAvg ? 2u : 1u};
      check(c, {first, second}, reference(c, {first, second}), {first.size(), 0, Stores::temporal});
    }
  }
}

// By each of many scalars, out of place and in place, at any alignment of all three.
TEST_P(Kernels, Scale) {
  for (hktDataType_t type : kAllTypes) {
    const size_t size = type_size(type);
    const Bytes data = make_input(type, kMaxElems, rng_);
    const Bytes scalars = make_input(type, std::size(kSizes), rng_);
    for (size_t turn = 0; turn < std::size(kSizes); ++turn) {
      const size_t bytes = kSizes[turn] * size;
      Guarded scalar(&scalars[turn * size], size, turn % 8);
      const Bytes expected = reference_scaled(type, data, &scalars[turn * size]);
      for (size_t misalignment : {0, 1, 8, 62}) {
        for (bool in_place : {false, true}) {
          Guarded src(data.data(), bytes, (misalignment * 3 + turn) % 64);
          Guarded out(Bytes(bytes, 0x5a).data(), bytes, misalignment);
          Guarded& dst = in_place ? src : out;
          scale_kernel(type)(dst.get(), src.get(), kSizes[turn], scalar.get());
          EXPECT_TRUE(dst.holds(expected.data()) && dst.guards_intact())
              << type_name(type) << " times scalar " << turn << ", " << kSizes[turn] << " elements misaligned by "
              << misalignment << (in_place ? " in place" : "") << " on " << simd_target();
          EXPECT_TRUE(in_place || (src.holds(data.data()) && src.guards_intact())) << "the operand was written";
        }
      }
    }
  }
}

// Every 8-bit float times every other.
TEST_P(Kernels, ScaleEveryPairOfBytes) {
  Bytes all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<uint8_t>(i));
  for (hktDataType_t type : {hktInt8, hktUint8, hktBool, hktFloat8e4m3, hktFloat8e5m2}) {
    for (const uint8_t& scalar : all) {
      Bytes out(all.size());
      scale_kernel(type)(out.data(), all.data(), all.size(), &scalar);
      EXPECT_EQ(out, reference_scaled(type, all, &scalar)) << type_name(type) << " times " << int{scalar};
    }
  }
}

}  // namespace
}  // namespace hocket::kernels
