// Inputs with predictable results. What is folded has small whole numbers, so few and small in 8-bit floats that no
// partial result is rounded: the result is exact in every type and operation that takes it, whatever the order of the
// fold. What is only moved has any bits. Both repeat with a short period, so that filling and checking run at the speed
// of memory; the period is a prime, so that a block in another's place shows.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::tool {

class PerfData {
 public:
  // No op: the data are only moved. Otherwise unsupported(type, op) is null. `seed` changes the values from call to
  // call; equal on all ranks.
  PerfData(hktDataType_t type, std::optional<hktRedOp_t> op, int nranks, uint32_t seed);

  void fill(void* buffer, uint64_t count, int rank) const;
  // Number of elements that are not the elements first, first + 1, ... of what a reduction over all ranks gives; there
  // is an op.
  uint64_t wrong_reduced(const void* buffer, uint64_t count, uint64_t first = 0) const;
  // The same for the input of `rank`.
  uint64_t wrong_copied(const void* buffer, uint64_t count, int rank, uint64_t first = 0) const;

 private:
  using Number = std::complex<double>;  // real for all types but the complex ones

  // One period, encoded.
  std::vector<unsigned char> pattern(int rank) const;
  std::vector<unsigned char> reduced_pattern() const;
  Number value(int rank, uint64_t i) const;
  Number combined(Number a, Number b) const;
  Number reduced(uint64_t i) const;
  uint64_t dice(uint64_t i) const;
  double addend(uint64_t x, uint64_t d) const;
  double bits(uint64_t k, uint64_t d) const;
  double truth(uint64_t k, uint64_t d) const;
  uint64_t wrong(const void* buffer, uint64_t count, const std::vector<unsigned char>& expected, uint64_t first) const;

  hktDataType_t type_;
  std::optional<hktRedOp_t> op_;
  uint64_t n_;
  uint32_t seed_;
  uint64_t size_;  // bytes of an element
};

}  // namespace hocket::tool
