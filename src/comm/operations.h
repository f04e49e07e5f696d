// Operations: those that a program has made on a communicator, next to the built-in ones. Any thread.
//
// A handle tells which one it is, in the order in which they were made, and of what kind: ranks that have made the same
// ones have the same handles, and calls with different ones do not match.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "hocket/hocket.h"
#include "kernels/reduce_cpu.h"

namespace hocket {

enum class OpKind : uint32_t {
  built_in,
  pre_mul_sum,  // the sum of what each rank's scalar multiplies
  commutative,  // the user's; so is the next one
  in_rank_order
};
// Whether `op` can be a handle of an operation that was made.
inline bool is_handle(uint32_t op) { return op >= 64; }
inline OpKind op_kind(uint32_t op) { return is_handle(op) ? static_cast<OpKind>(op % 4) : OpKind::built_in; }
// "sum", "pre-multiplied sum 0", "operation 3": by their number on the communicator.
std::string operation_name(uint32_t op);

// What a handle stands for.
struct Operation {
  OpKind kind = OpKind::built_in;
  // pre_mul_sum: the scalar's type, and the bytes of one element.
  hktDataType_t type = hktInt8;
  alignas(16) std::array<unsigned char, 16> scalar{};
  // The user's.
  hktReduceFn fn = nullptr;
  void* context = nullptr;
};

class Operations {
 public:
  Result<hktRedOp_t> add(const Operation& operation) HKT_EXCLUDES(mutex_);
  // An error as long as somebody holds on to it.
  Status remove(hktRedOp_t op) HKT_EXCLUDES(mutex_);
  // A call holds on to what it uses until it is done.
  Result<std::shared_ptr<const Operation>> find(hktRedOp_t op) const HKT_EXCLUDES(mutex_);

 private:
  Error unknown(uint32_t op) const HKT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  uint32_t made_ HKT_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::shared_ptr<const Operation>> live_ HKT_GUARDED_BY(mutex_);  // by handle
};

}  // namespace hocket
