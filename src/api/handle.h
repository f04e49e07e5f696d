// What the files of the C ABI share: the handle, errors of the calling thread, and checks of arguments.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "comm/communicator.h"
#include "hocket/hocket.h"

// A handle. Its few bytes outlive hktCommDestroy on purpose, so that the use of a destroyed handle is an error and not
// a crash; they stay linked to each other, so that leak checkers see them.
struct hktComm {
  std::unique_ptr<hocket::Communicator> comm;  // null once destroyed
  hktComm* next_destroyed = nullptr;
};

namespace hocket {

// Keeps the text for hktGetLastError of this thread and returns the code.
hktResult_t fail(Error e);

// Runs `body` (returning Status) so that no exception crosses the ABI.
template <class Body>
hktResult_t guarded(const char* function, Body&& body) {
  try {
    Status status = body();
    return status.ok() ? hktSuccess : fail(std::move(status.error()));
  } catch (const std::bad_alloc&) {
    return fail(error(hktSystemError, "%s: out of memory", function));
  } catch (const std::exception& e) {
    return fail(error(hktInternalError, "%s: %s", function, e.what()));
  }
}

// The checks of collectives are split: what passes costs a few compares, what fails goes to a function that finds the
// words.
inline bool valid(hktComm_t comm) { return comm != nullptr && comm->comm != nullptr; }
// For calls: not in an operation that a call runs, which would wait for itself.
inline bool usable(hktComm_t comm) { return valid(comm) && !Communicator::in_an_operation(); }
Error unusable(const char* function, hktComm_t comm);

inline Status check_comm(const char* function, hktComm_t comm) {
  if (!valid(comm)) return unusable(function, comm);
  return {};
}
Error in_an_operation(const char* function);
inline Status check_no_operation(const char* function) {
  if (Communicator::in_an_operation()) return in_an_operation(function);
  return {};
}
// `options` is not null.
Status read_options(const char* function, const hktCallOptions_t* options, CallOptions& o);
Status check_pointer(const char* function, const char* name, const void* p);

}  // namespace hocket
