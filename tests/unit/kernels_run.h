// Runs kernels between guard bytes, on every instruction set that this processor has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/reduce_cpu.h"
#include "kernels_reference.h"

namespace hocket::kernels {

constexpr Stores kStores[] = {Stores::temporal, Stores::streaming};

// ---- A run in memory with guard bytes before and behind.

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

// A copy of `data` at `misalignment` bytes behind a cache line, surrounded by guard bytes.
class Guarded {
 public:
  Guarded(const uint8_t* data, size_t bytes, size_t misalignment)
      : bytes_(bytes), memory_(bytes + misalignment + 3 * kGuard, kGuardByte) {
    const size_t to_line = (kGuard - reinterpret_cast<uintptr_t>(memory_.data()) % kGuard) % kGuard;
    begin_ = to_line + kGuard + misalignment;
    if (bytes != 0) std::memcpy(start(), data, bytes);
  }
  void* get() { return start(); }
  bool holds(const uint8_t* expected) const {
    return bytes_ == 0 || std::memcmp(memory_.data() + begin_, expected, bytes_) == 0;
  }
  bool guards_intact() const {
    const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
    const auto begin = memory_.begin() + static_cast<ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<ptrdiff_t>(bytes_), memory_.end(), is_guard);
  }

 private:
  uint8_t* start() { return memory_.data() + begin_; }
  size_t bytes_;
  size_t begin_ = 0;
  Bytes memory_;
};

constexpr int kOutOfPlace = -1;

struct Layout {
  size_t elems;
  size_t misalignment;
  Stores stores;
  int in_place = kOutOfPlace;  // or the operand that is the destination
};

inline std::string describe(const Case& c, size_t nsrc, const Layout& l) {
  return std::string(type_name(c.type)) + " " + op_name(c.op) + " divisor " + std::to_string(c.divisor) + ", " +
         std::to_string(nsrc) + " operands of " + std::to_string(l.elems) + ", misaligned by " +
         std::to_string(l.misalignment) + (l.stores == Stores::streaming ? ", streaming" : ", temporal") +
         ", in place with " + std::to_string(l.in_place) + ", on " + simd_target();
}

// Runs the kernel on the first elems elements of the sources and compares with the same part of `expected`.
inline void check(const Case& c, const std::vector<Bytes>& src, const Bytes& expected, const Layout& l) {
  const size_t bytes = l.elems * type_size(c.type);
  std::vector<Guarded> operands;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < src.size(); ++k)
    operands.emplace_back(src[k].data(), bytes, l.misalignment * (2 * k + 1) % 64);
  for (Guarded& o : operands) pointers.push_back(o.get());
  const Bytes junk(bytes, 0x5a);
  Guarded separate(junk.data(), bytes, l.misalignment);
  Guarded& dst = l.in_place == kOutOfPlace ? separate : operands[static_cast<size_t>(l.in_place)];

  const Kernel kernel = fold_kernel(c.type, c.op);
  const FoldFn fold = l.stores == Stores::streaming ? kernel.streaming : kernel.temporal;
  fold(dst.get(), pointers.data(), static_cast<uint32_t>(src.size()), l.elems, c.divisor);

  EXPECT_TRUE(dst.holds(expected.data())) << describe(c, src.size(), l);
  EXPECT_TRUE(dst.guards_intact()) << describe(c, src.size(), l);
  for (size_t k = 0; k < src.size(); ++k) {
    if (static_cast<int>(k) == l.in_place) continue;
    EXPECT_TRUE(operands[k].holds(src[k].data()) && operands[k].guards_intact())
        << "operand " << k << " was written: " << describe(c, src.size(), l);
  }
}

// Folds typed values, out of place.
template <class T>
std::vector<T> fold(const Case& c, const std::vector<std::vector<T>>& src) {
  std::vector<const void*> pointers;
  for (const auto& s : src) pointers.push_back(s.data());
  std::vector<T> out(src[0].size());
  fold_kernel(c.type, c.op)
      .temporal(out.data(), pointers.data(), static_cast<uint32_t>(src.size()), out.size(), c.divisor);
  return out;
}

// ---- Every test runs on each instruction set.

inline void use_target(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// One bit for each set for which kernels were compiled and which this processor has. A set without kernels of its own
// is served by another, whose name is seen twice.
inline std::vector<int64_t> targets() {
  std::vector<int64_t> found;
  std::vector<std::string> names;
  const int64_t all = hwy::SupportedTargets() | HWY_EMU128 | HWY_SCALAR;
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((all & target) == 0) continue;
    use_target(target);
    if (std::find(names.begin(), names.end(), simd_target()) != names.end()) continue;
    names.emplace_back(simd_target());
    found.push_back(target);
  }
  use_target(0);
  return found;
}

class OnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { use_target(GetParam()); }
  void TearDown() override { use_target(0); }
  std::mt19937_64 rng_{20240607};
};

inline std::string target_label(const testing::TestParamInfo<int64_t>& target) {
  use_target(target.param);
  std::string name = simd_target();
  use_target(0);
  return name;
}

// The vector edges of all instruction sets and types.
constexpr size_t kSizes[] = {0,  1,  2,  3,  5,  7,  8,  9,   13,  15,  16,  17,  24,  31,  32, 33,
                             48, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257, 319, 640};
constexpr size_t kMaxElems = 640;

}  // namespace hocket::kernels
