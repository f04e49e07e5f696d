// Inputs whose reductions are exactly predictable, in every type and operation, whatever the order of the fold: small
// whole numbers. They repeat with a short period, so that filling and checking run at the speed of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::tool {

class PerfData {
 public:
  // `seed` changes the values from call to call; equal on all ranks.
  PerfData(hktDataType_t type, hktRedOp_t op, int nranks, uint32_t seed);

  void fill(void* buffer, uint64_t count, int rank) const;
  // Number of elements that are not what an all-reduce over all ranks gives.
  uint64_t wrong_reduced(const void* buffer, uint64_t count) const;
  // The same for a broadcast of `root`.
  uint64_t wrong_copied(const void* buffer, uint64_t count, int root) const;

 private:
  std::vector<unsigned char> pattern(int rank) const;
  double value(int rank, uint64_t i) const;
  double reduced(uint64_t i) const;
  uint64_t wrong(const void* buffer, uint64_t count, const std::vector<unsigned char>& expected) const;

  hktDataType_t type_;
  hktRedOp_t op_;
  uint64_t n_;
  uint32_t seed_;
  uint64_t size_;    // bytes of an element
  uint64_t period_;  // elements
};

}  // namespace hocket::tool
