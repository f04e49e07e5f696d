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

constexpr uint64_t kPeriod = 509;  // elements

// Spreads the bits of x over the result (the finaliser of MurmurHash3).
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdU;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53U;
  return x ^ (x >> 33);
}

}  // namespace

PerfData::PerfData(hktDataType_t type, std::optional<hktRedOp_t> op, int nranks, uint32_t seed)
    : type_(type), op_(op), n_(static_cast<uint64_t>(nranks)), seed_(seed), size_(type_size(type)) {
  if (op_ && type_ == hktBool) op_ = logical(*op_);
}

// What makes an element differ from its neighbours, the same on all ranks.
uint64_t PerfData::dice(uint64_t i) const { return mixed((uint64_t{seed_} << 32) + i + 1); }

// At most 63 ranks add at most 3, and one rank 3 more: 192 is exact with the 8 bits of a bfloat16 and of a uint8; int8
// wraps as it must. In 8-bit floats it is 7 ranks and 1: f8e5m2 has 3 bits.
double PerfData::addend(uint64_t x, uint64_t d) const {
  const bool tiny = type_ == hktFloat8e4m3 || type_ == hktFloat8e5m2;
  const uint64_t k = x % n_, values = tiny ? 2 : 4;
  const uint64_t common = k < (tiny ? 7 : 63) ? x % values : 0;
  return static_cast<double>(common + (k == 0 ? d % values : 0));
}

// 7 bits, which every integer has: the k-th rank sets, or for `and` clears, one of its own in some elements.
double PerfData::bits(uint64_t k, uint64_t d) const {
  const uint64_t own = k < 7 ? d & (uint64_t{1} << k) : 0;
  return static_cast<double>(op_ == hktBitAnd ? 127 - own : own);
}

// One rank decides some elements; half of the ranks turn an exclusive or. True is any number but 0.
double PerfData::truth(uint64_t k, uint64_t d) const {
  const bool decides = k == 0 && d % 2 != 0;
  const bool turns = k < 64 && (d >> k) % 2 != 0;
  const bool yes = op_ == hktLogicalAnd ? !decides : op_ == hktLogicalOr ? decides : turns;
  return yes ? static_cast<double>(1 + d % 4) : 0;
}

PerfData::Number PerfData::value(int rank, uint64_t i) const {
  const uint64_t x = static_cast<uint64_t>(rank) + i + seed_;
  const uint64_t k = x % n_;  // who is who changes from element to element
  const uint64_t d = dice(i);
  const uint64_t spread = size_ == 1 ? 4 : 50;
  const bool complex = type_class(type_) == TypeClass::complex;
  switch (op_.value_or(hktSum)) {
    case hktSum:
      return {addend(x, d), complex ? addend(x + 1, d >> 8) : 0};
    // Up to four ranks hold 2 or 1 + i, the others 1: no product exceeds 16, and no zero of one is ever negative.
    case hktProd:
      return k >= d % 5 ? Number(1) : complex ? Number(1, 1) : Number(2);
    // One rank alone has the largest, or the smallest, of up to 2 * spread - 1 values.
    case hktMax:
      return static_cast<double>(1 + d % spread + (k == 0 ? spread - 1 : k % (spread - 1)));
    case hktMin:
      return static_cast<double>(1 + d % spread + (k == 0 ? 0 : 1 + k % (spread - 1)));
    // One rank has all there is: the sum is exact, the quotient is rounded once.
    case hktAvg:
      return {static_cast<double>(k == 0 ? 64 >> d % 4 : 0),
              static_cast<double>(complex && k == n_ - 1 ? 32 >> d % 4 : 0)};
    case hktBitAnd:
    case hktBitOr:
    case hktBitXor:
      return bits(k, d);
    case hktLogicalAnd:
    case hktLogicalOr:
    case hktLogicalXor:
      return truth(k, d);
    case hktRedOpLast:
      break;
  }
  return 0;
}

PerfData::Number PerfData::combined(Number a, Number b) const {
  const auto whole = [](Number n) { return static_cast<uint64_t>(n.real()); };  // of values that are whole and >= 0
  const bool p = a.real() != 0, q = b.real() != 0;
  switch (op_.value_or(hktSum)) {
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
      return static_cast<double>(whole(a) & whole(b));
    case hktBitOr:
      return static_cast<double>(whole(a) | whole(b));
    case hktBitXor:
      return static_cast<double>(whole(a) ^ whole(b));
    case hktLogicalAnd:
      return p && q ? 1 : 0;
    case hktLogicalOr:
      return p || q ? 1 : 0;
    case hktLogicalXor:
      return p != q ? 1 : 0;
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
  std::vector<unsigned char> bytes(kPeriod * size_);
  if (op_) {
    for (uint64_t i = 0; i < kPeriod; ++i) encode(type_, value(rank, i), bytes.data() + i * size_);
    return bytes;
  }
  const uint64_t start = mixed((uint64_t{seed_} << 32) + static_cast<uint64_t>(rank) + 1);
  for (uint64_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t any = mixed(start + at + 1);
    std::memcpy(bytes.data() + at, &any, std::min<uint64_t>(sizeof any, bytes.size() - at));
  }
  return bytes;
}

std::vector<unsigned char> PerfData::reduced_pattern() const {
  std::vector<unsigned char> bytes(kPeriod * size_);
  for (uint64_t i = 0; i < kPeriod; ++i) encode(type_, reduced(i), bytes.data() + i * size_);
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

uint64_t PerfData::wrong(const void* buffer, uint64_t count, const std::vector<unsigned char>& expected,
                         uint64_t first) const {
  const auto* from = static_cast<const unsigned char*>(buffer);
  uint64_t bad = 0;
  uint64_t begin = first % kPeriod * size_;  // later stretches begin at 0
  for (uint64_t left = count * size_; left != 0; begin = 0) {
    const uint64_t n = std::min<uint64_t>(left, expected.size() - begin);
    const unsigned char* want = expected.data() + begin;
    if (std::memcmp(from, want, n) != 0)
      for (uint64_t at = 0; at < n; at += size_) bad += std::memcmp(from + at, want + at, size_) != 0;
    from += n;
    left -= n;
  }
  return bad;
}

uint64_t PerfData::wrong_reduced(const void* buffer, uint64_t count, uint64_t first) const {
  return wrong(buffer, count, reduced_pattern(), first);
}

uint64_t PerfData::wrong_copied(const void* buffer, uint64_t count, int rank, uint64_t first) const {
  return wrong(buffer, count, pattern(rank), first);
}

}  // namespace hocket::tool
