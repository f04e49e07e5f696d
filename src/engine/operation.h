// Whether this thread runs an operation of the program's (hktReduceFn) this moment: it then is in the middle of a call,
// maybe as a visitor of the communicator, and nothing that waits for the call may be called.
#pragma once

#include <cstdint>

namespace hocket {

// As `attention` of comm/thread.h: static thread-local storage, without a function call.
extern constinit thread_local uint32_t in_operation __attribute__((tls_model("initial-exec")));

class OperationScope {
 public:
  OperationScope() { ++in_operation; }
  ~OperationScope() { --in_operation; }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;
};

}  // namespace hocket
