#include "perf_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/types.h"

namespace hocket::tool {
namespace {

// Rounds a non-negative normal value to a 16-bit float with `mantissa` bits and `bias`, to nearest, ties to even.
uint16_t to_16bit(double v, int mantissa, int bias) {
  if (v == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent) * 2;  // [1, 2)
  double scaled = std::nearbyint(std::ldexp(fraction, mantissa));
  if (scaled >= std::ldexp(2.0, mantissa)) {
    scaled /= 2;
    ++exponent;
  }
  const auto bits = static_cast<uint32_t>(scaled) & ((1u << mantissa) - 1);
  return static_cast<uint16_t>(static_cast<uint32_t>(exponent - 1 + bias) << mantissa | bits);
}

template <class T>
void put(unsigned char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void encode(hktDataType_t type, double v, unsigned char* to) {
  switch (type) {
    case hktInt8:
      return put(to, static_cast<int8_t>(static_cast<int64_t>(v)));
    case hktUint8:
      return put(to, static_cast<uint8_t>(static_cast<int64_t>(v)));
    case hktInt16:
      return put(to, static_cast<int16_t>(v));
    case hktUint16:
      return put(to, static_cast<uint16_t>(v));
    case hktInt32:
      return put(to, static_cast<int32_t>(v));
    case hktUint32:
      return put(to, static_cast<uint32_t>(v));
    case hktInt64:
      return put(to, static_cast<int64_t>(v));
    case hktUint64:
      return put(to, static_cast<uint64_t>(v));
    case hktFloat16:
      return put(to, to_16bit(static_cast<float>(v), 10, 15));
    case hktBfloat16:
      return put(to, to_16bit(static_cast<float>(v), 7, 127));
    case hktFloat32:
      return put(to, static_cast<float>(v));
    case hktFloat64:
      return put(to, v);
  }
}

bool whole(hktDataType_t type) {
  return type != hktFloat16 && type != hktBfloat16 && type != hktFloat32 && type != hktFloat64;
}

}  // namespace

PerfData::PerfData(hktDataType_t type, hktRedOp_t op, int nranks, uint32_t seed)
    : type_(type),
      op_(op),
      n_(static_cast<uint64_t>(nranks)),
      seed_(seed),
      size_(type_size(type)),
      period_(std::max<uint64_t>(4 * n_, 64)) {
  period_ = (period_ + 4 * n_ - 1) / (4 * n_) * (4 * n_);  // every value below repeats with n or 4
}

double PerfData::value(int rank, uint64_t i) const {
  const uint64_t x = static_cast<uint64_t>(rank) + i + seed_;
  switch (op_) {
    // At most 64 ranks add at most 3: 192 is exact with the 8 bits of a bfloat16 and of a uint8; int8 wraps as it must.
    case hktSum:
      return x % n_ < 64 ? static_cast<double>(x % 4) : 0;
    // Four ranks hold 2, the others 1: no product exceeds 16.
    case hktProd:
      return x % n_ < 4 ? 2 : 1;
    case hktMax:
    case hktMin:
      return static_cast<double>(1 + x % n_ % 100);
    // One rank holds 64: the sum is exact, the quotient is rounded once.
    case hktAvg:
      return x % n_ == 0 ? 64 : 0;
  }
  return 0;
}

double PerfData::reduced(uint64_t i) const {
  double all = value(0, i);
  for (int r = 1; r < static_cast<int>(n_); ++r) {
    const double v = value(r, i);
    switch (op_) {
      case hktSum:
      case hktAvg:
        all += v;
        break;
      case hktProd:
        all *= v;
        break;
      case hktMax:
        all = std::max(all, v);
        break;
      case hktMin:
        all = std::min(all, v);
        break;
    }
  }
  if (op_ == hktAvg) {
    all /= static_cast<double>(n_);
    if (whole(type_)) all = std::trunc(all);
  }
  return all;
}

std::vector<unsigned char> PerfData::pattern(int rank) const {
  std::vector<unsigned char> bytes(period_ * size_);
  for (uint64_t i = 0; i < period_; ++i) encode(type_, value(rank, i), bytes.data() + i * size_);
  return bytes;
}

void PerfData::fill(void* buffer, uint64_t count, int rank) const {
  const std::vector<unsigned char> p = pattern(rank);
  auto* to = static_cast<unsigned char*>(buffer);
  for (uint64_t left = count * size_; left != 0;) {
    const uint64_t n = std::min<uint64_t>(left, p.size());
    std::memcpy(to, p.data(), n);
    to += n;
    left -= n;
  }
}

uint64_t PerfData::wrong(const void* buffer, uint64_t count, const std::vector<unsigned char>& expected) const {
  const auto* from = static_cast<const unsigned char*>(buffer);
  uint64_t bad = 0;
  for (uint64_t left = count * size_; left != 0;) {
    const uint64_t n = std::min<uint64_t>(left, expected.size());
    if (std::memcmp(from, expected.data(), n) != 0)
      for (uint64_t at = 0; at < n; at += size_) bad += std::memcmp(from + at, expected.data() + at, size_) != 0;
    from += n;
    left -= n;
  }
  return bad;
}

uint64_t PerfData::wrong_reduced(const void* buffer, uint64_t count) const {
  std::vector<unsigned char> expected(period_ * size_);
  for (uint64_t i = 0; i < period_; ++i) encode(type_, reduced(i), expected.data() + i * size_);
  return wrong(buffer, count, expected);
}

uint64_t PerfData::wrong_copied(const void* buffer, uint64_t count, int root) const {
  return wrong(buffer, count, pattern(root));
}

}  // namespace hocket::tool
