#include "comm/operations.h"

#include "base/types.h"

namespace hocket {
namespace {

constexpr uint32_t kFirst = 64, kKinds = 4;
constexpr uint32_t kMost = (static_cast<uint32_t>(hktRedOpLast) - kFirst) / kKinds;

uint32_t handle(uint32_t number, OpKind kind) { return kFirst + number * kKinds + static_cast<uint32_t>(kind); }
uint32_t number(uint32_t handle) { return (handle - kFirst) / kKinds; }

}  // namespace

std::string operation_name(uint32_t op) {
  switch (op_kind(op)) {
    case OpKind::built_in:
      break;
    case OpKind::pre_mul_sum:
      return format("pre-multiplied sum %u", number(op));
    case OpKind::commutative:
      return format("operation %u", number(op));
    case OpKind::in_rank_order:
      return format("operation %u in order", number(op));
  }
  return is_handle(op) ? "invalid" : op_name(static_cast<hktRedOp_t>(op));
}

Result<hktRedOp_t> Operations::add(const Operation& operation) {
  const MutexLock lock(mutex_);
  if (made_ == kMost) return error(hktInvalidUsage, "%u operations have been made, more than there are handles", made_);
  const uint32_t made = handle(made_, operation.kind);
  live_.emplace(made, std::make_shared<const Operation>(operation));
  ++made_;
  return static_cast<hktRedOp_t>(made);
}

Status Operations::remove(hktRedOp_t op) {
  const MutexLock lock(mutex_);
  const auto which = static_cast<uint32_t>(op);
  if (!is_handle(which)) return error(hktInvalidArgument, "op is %s, which is built in", operation_name(which).c_str());
  const auto found = live_.find(which);
  if (found == live_.end()) return unknown(which);
  if (found->second.use_count() > 1)
    return error(hktInvalidUsage,
                 "calls that use %s are outstanding or in an open group; destroy it when they are done",
                 operation_name(which).c_str());
  live_.erase(found);
  return {};
}

Result<std::shared_ptr<const Operation>> Operations::find(hktRedOp_t op) const {
  const MutexLock lock(mutex_);
  const auto found = live_.find(static_cast<uint32_t>(op));
  if (found == live_.end()) return unknown(static_cast<uint32_t>(op));
  return found->second;
}

Error Operations::unknown(uint32_t op) const {
  const bool was_made = is_handle(op) && op_kind(op) != OpKind::built_in && number(op) < made_;
  return error(hktInvalidArgument, "op is %u, %s", op,
               was_made ? "which has been destroyed, or was made on another communicator"
                        : "which is no hktRedOp_t and was not made on this communicator");
}

}  // namespace hocket
