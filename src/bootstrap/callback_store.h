// The store over hktStore_t: put, get and wait given by the caller (PyTorch's store, for one). Keys begin with
// "hocket/". Deaths cannot be seen through it: whoever waits for a dead rank waits until the deadline.
#pragma once

#include <memory>

#include "bootstrap/store.h"

namespace hocket {

// Copies `callbacks`; what its ctx points to must outlive the store. hktInvalidArgument if a callback is null.
Result<std::unique_ptr<Store>> make_callback_store(const hktStore_t& callbacks);

}  // namespace hocket
