// The C ABI of registered memory. Argument checks and nothing else.
#include "api/handle.h"
#include "comm/registered.h"

using namespace hocket;  // NOLINT: this file is the bridge between the two worlds

extern "C" {

hktResult_t hktMemAlloc(void** ptr, size_t bytes) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_pointer("hktMemAlloc", "ptr", static_cast<const void*>(ptr)));
    *ptr = nullptr;
    if (bytes == 0) return error(hktInvalidArgument, "hktMemAlloc: bytes is 0");
    Result<void*> made = allocate_shared(bytes);
    if (!made) return error(made.error().code, "hktMemAlloc: %s", made.error().text.c_str());
    *ptr = *made;
    return {};
  });
}

hktResult_t hktMemFree(void* ptr) {
  return guarded(__func__, [&]() -> Status {
    if (ptr == nullptr) return {};
    const Status freed = free_shared(ptr);
    if (!freed.ok()) return error(freed.error().code, "hktMemFree: %s", freed.error().text.c_str());
    return {};
  });
}

hktResult_t hktCommRegister(hktComm_t comm, void* ptr, size_t bytes, hktRegistration_t* registration) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_pointer("hktCommRegister", "registration", static_cast<const void*>(registration)));
    *registration = nullptr;
    HKT_TRY(check_comm("hktCommRegister", comm));
    HKT_TRY(check_no_operation("hktCommRegister"));
    Result<Registration> made = register_memory(*comm->comm, ptr, bytes);
    if (!made) return error(made.error().code, "hktCommRegister: %s", made.error().text.c_str());
    *registration = reinterpret_cast<hktRegistration_t>(*made);  // a number, opaque outside
    return {};
  });
}

hktResult_t hktCommDeregister(hktComm_t comm, hktRegistration_t registration) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommDeregister", comm));
    HKT_TRY(check_no_operation("hktCommDeregister"));
    const Status removed = deregister_memory(*comm->comm, reinterpret_cast<Registration>(registration));
    if (!removed.ok()) return error(removed.error().code, "hktCommDeregister: %s", removed.error().text.c_str());
    return {};
  });
}

}  // extern "C"
