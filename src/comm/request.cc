#include "comm/request.h"

namespace hocket {

RequestTable& RequestTable::get() {
  // Never destroyed: handles may be used until the very end of the process.
  static RequestTable* const table = new RequestTable;
  return *table;
}

Result<Request*> RequestTable::lease() {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    if (made_ == 1u << kPlaceBits)
      return error(hktInvalidUsage, "%u requests are outstanding, as many as there can be; wait for some", made_);
    auto* const block = new Block;
    for (uint32_t i = kBlock; i-- > 0;) {
      block->requests[i].place = made_ + i;
      free_.push_back(&block->requests[i]);
    }
    blocks_[made_ / kBlock].store(block, std::memory_order_release);  // release: its places are numbered
    made_ += kBlock;
  }
  Request* const request = free_.back();
  free_.pop_back();
  return request;
}

void RequestTable::give_back(Request* request) {
  const MutexLock lock(mutex_);
  free_.push_back(request);
}

hktRequest_t RequestTable::publish(Request& request) {
  const uint64_t id = ++request.uses << kPlaceBits | request.place;
  request.id.store(id, std::memory_order_release);
  static_assert(sizeof(hktRequest_t) == sizeof id);
  return reinterpret_cast<hktRequest_t>(static_cast<uintptr_t>(id));  // NOLINT: a number that is never followed
}

Request* RequestTable::find(hktRequest_t handle) const {
  const auto id = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  const auto place = static_cast<uint32_t>(id & ((1u << kPlaceBits) - 1));
  Block* const block = blocks_[place / kBlock].load(std::memory_order_acquire);
  if (id == 0 || block == nullptr) return nullptr;
  Request& request = block->requests[place % kBlock];
  return request.id.load(std::memory_order_acquire) == id ? &request : nullptr;
}

}  // namespace hocket
