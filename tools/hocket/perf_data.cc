#include "perf_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/types.h"

namespace hocket::tool {
namespace {

// Rounds a non-negative value to a float of fewer bits than 32, to nearest, ties to even; none here is too large for
// it.
uint32_t to_narrow(double v, int mantissa, int bias) {
  if (v == 0) return 0;
  const int exponent = std::max(std::ilogb(v), 1 - bias);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(v, mantissa - exponent)));
  // The implicit bit of a normal value, and a carry out of the mantissa, count up the exponent.
  return (static_cast<uint32_t>(exponent + bias - 1) << mantissa) + units;
}

template <class T>
void put(unsigned char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void encode(hktDataType_t type, std::complex<double> v, unsigned char* to) {
  const double re = v.real();
  const auto whole = static_cast<int64_t>(re);
  switch (type) {
    case hktInt8:
    case hktUint8:
    case hktBool:
      return put(to, static_cast<uint8_t>(whole));  // wraps, as the sums do
    case hktInt16:
    case hktUint16:
      return put(to, static_cast<uint16_t>(whole));
    case hktInt32:
    case hktUint32:
      return put(to, static_cast<uint32_t>(whole));
    case hktInt64:
    case hktUint64:
      return put(to, whole);
    case hktFloat16:
      return put(to, static_cast<uint16_t>(to_narrow(static_cast<float>(re), 10, 15)));
    case hktBfloat16:
      return put(to, static_cast<uint16_t>(to_narrow(static_cast<float>(re), 7, 127)));
    case hktFloat8e4m3:
      return put(to, static_cast<uint8_t>(to_narrow(static_cast<float>(re), 3, 7)));
    case hktFloat8e5m2:
      return put(to, static_cast<uint8_t>(to_narrow(static_cast<float>(re), 2, 15)));
    case hktFloat32:
      return put(to, static_cast<float>(re));
    case hktFloat64:
      return put(to, re);
    case hktComplex64:
      return put(to, std::complex<float>(v));
    case hktComplex128:
      return put(to, v);
  }
}

// What an operation on hktBool is.
hktRedOp_t logical(hktRedOp_t op) {
  switch (op) {
    case hktProd:
    case hktMin:
    case hktBitAnd:
      return hktLogicalAnd;
    case hktSum:
    case hktMax:
    case hktBitOr:
      return hktLogicalOr;
    case hktBitXor:
      return hktLogicalXor;
    default:
      return op;
  }
}

}  // namespace

PerfData::PerfData(hktDataType_t type, hktRedOp_t op, int nranks, uint32_t seed)
    : type_(type),
      op_(type == hktBool ? logical(op) : op),
      n_(static_cast<uint64_t>(nranks)),
      seed_(seed),
      size_(type_size(type)),
      period_(std::max<uint64_t>(4 * n_, 64)) {
  period_ = (period_ + 4 * n_ - 1) / (4 * n_) * (4 * n_);  // every value below repeats with n or 4
}

// At most 64 ranks add at most 3: 192 is exact with the 8 bits of a bfloat16 and of a uint8; int8 wraps as it must. In
// 8-bit floats at most 8 ranks add at most 1: f8e5m2 has 3 bits.
double PerfData::addend(uint64_t x) const {
  const bool tiny = type_ == hktFloat8e4m3 || type_ == hktFloat8e5m2;
  return x % n_ < (tiny ? 8 : 64) ? static_cast<double>(x % (tiny ? 2 : 4)) : 0;
}

// 7 bits, which every integer has: the k-th rank sets, or for `and` clears, one of its own in some elements.
double PerfData::bits(uint64_t k, uint64_t i) const {
  const uint64_t own = k < 7 && (k + i / n_) % 2 != 0 ? uint64_t{1} << k : 0;
  return static_cast<double>(op_ == hktBitAnd ? 127 - own : own);
}

// Rank 0 decides some elements; half of the ranks turn an exclusive or. True is any number but 0.
double PerfData::truth(uint64_t k, uint64_t i) const {
  const bool decides = k == 0 && i / n_ % 2 != 0;
  const bool turns = k < 64 && (k + i / n_) % 2 != 0;
  const bool yes = op_ == hktLogicalAnd ? !decides : op_ == hktLogicalOr ? decides : turns;
  return yes ? static_cast<double>(1 + i % 4) : 0;
}

PerfData::Number PerfData::value(int rank, uint64_t i) const {
  const uint64_t x = static_cast<uint64_t>(rank) + i + seed_;
  const uint64_t k = x % n_;
  const bool complex = type_class(type_) == TypeClass::complex;
  switch (op_) {
    case hktSum:
      return {addend(x), complex ? addend(x + 1) : 0};
    // Four ranks hold 2 or 1 + i, the others 1: no product exceeds 16, and no zero of one is ever negative.
    case hktProd:
      return k >= 4 ? Number(1) : complex ? Number(1, 1) : Number(2);
    case hktMax:
    case hktMin:
      return static_cast<double>(1 + k % (type_size(type_) == 1 ? 8 : 100));
    // One rank holds 64: the sum is exact, the quotient is rounded once.
    case hktAvg:
      return {k == 0 ? 64.0 : 0, complex && k == n_ - 1 ? 32.0 : 0};
    case hktBitAnd:
    case hktBitOr:
    case hktBitXor:
      return bits(k, i);
    case hktLogicalAnd:
    case hktLogicalOr:
    case hktLogicalXor:
      return truth(k, i);
    case hktRedOpLast:
      break;
  }
  return 0;
}

PerfData::Number PerfData::combined(Number a, Number b) const {
  const auto p = static_cast<uint64_t>(a.real()), q = static_cast<uint64_t>(b.real());
  switch (op_) {
    case hktSum:
    case hktAvg:
      return a + b;
    case hktProd:
      return a * b;
    case hktMax:
      return std::max(a.real(), b.real());
    case hktMin:
      return std::min(a.real(), b.real());
    case hktBitAnd:
      return static_cast<double>(p & q);
    case hktBitOr:
      return static_cast<double>(p | q);
    case hktBitXor:
      return static_cast<double>(p ^ q);
    case hktLogicalAnd:
      return p != 0 && q != 0 ? 1 : 0;
    case hktLogicalOr:
      return p != 0 || q != 0 ? 1 : 0;
    case hktLogicalXor:
      return (p != 0) != (q != 0) ? 1 : 0;
    case hktRedOpLast:
      break;
  }
  return 0;
}

PerfData::Number PerfData::reduced(uint64_t i) const {
  Number all = value(0, i);  // of one rank, the result is a copy
  for (int r = 1; r < static_cast<int>(n_); ++r) all = combined(all, value(r, i));
  if (op_ != hktAvg) return all;
  all /= static_cast<double>(n_);
  return type_class(type_) == TypeClass::integer ? Number(std::trunc(all.real())) : all;
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
