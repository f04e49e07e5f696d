// Inputs whose reductions are exactly predictable, in every type and operation that takes it, whatever the order of the
// fold: small whole numbers, so few and small in 8-bit floats that no partial result is rounded. They repeat with a
// short period, so that filling and checking run at the speed of memory.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::tool {

class PerfData {
 public:
  // unsupported(type, op) is null. `seed` changes the values from call to call; equal on all ranks.
  PerfData(hktDataType_t type, hktRedOp_t op, int nranks, uint32_t seed);

  void fill(void* buffer, uint64_t count, int rank) const;
  // Number of elements that are not what an all-reduce over all ranks gives.
  uint64_t wrong_reduced(const void* buffer, uint64_t count) const;
  // The same for a broadcast of `root`.
  uint64_t wrong_copied(const void* buffer, uint64_t count, int root) const;

 private:
  using Number = std::complex<double>;  // real for all types but the complex ones

  std::vector<unsigned char> pattern(int rank) const;
  Number value(int rank, uint64_t i) const;
  Number combined(Number a, Number b) const;
  Number reduced(uint64_t i) const;
  double addend(uint64_t x) const;
  double bits(uint64_t k, uint64_t i) const;
  double truth(uint64_t k, uint64_t i) const;
  uint64_t wrong(const void* buffer, uint64_t count, const std::vector<unsigned char>& expected) const;

  hktDataType_t type_;
  hktRedOp_t op_;
  uint64_t n_;
  uint32_t seed_;
  uint64_t size_;    // bytes of an element
  uint64_t period_;  // elements
};

}  // namespace hocket::tool
