// The C ABI without the collectives: the library, communicators from bring-up to their end. Argument checks and nothing
// else; every function turns a Status into a code and keeps the text for the thread.
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/handle.h"
#include "base/env.h"
#include "base/types.h"
#include "comm/bringup.h"
#include "comm/children.h"
#include "comm/thread.h"

namespace hocket {
namespace {

thread_local std::string last_error;

Status check_place(const char* function, int rank, int nranks) {
  if (Status s = check_rank(rank, nranks); !s.ok())
    return error(s.error().code, "%s: %s", function, s.error().text.c_str());
  return {};
}

Result<std::unique_ptr<Rendezvous>> meet(Identity me, Deadline deadline) {
  if (me.url.empty()) me.bring_up = count_bring_up();
  return Rendezvous::open(me, deadline);
}

// The size of hktConfig_t in version 0.1.
constexpr size_t kFirstConfig = offsetof(hktConfig_t, determinism);

Result<CommSettings> settings(const char* function, const hktConfig_t* config) {
  CommSettings s;
  if (config == nullptr) return s;
  if (config->magic != HKT_CONFIG_MAGIC || config->size < kFirstConfig)
    return error(hktInvalidArgument, "%s: config was not initialised with HKT_CONFIG_INITIALIZER", function);
  if (config->version / 10000 != HKT_MAJOR)
    return error(hktInvalidArgument, "%s: config.version is %u, this library is %u", function, config->version,
                 HKT_VERSION_CODE);
  if (config->init_timeout_ms != HKT_UNDEFINED) s.init_timeout_ms = config->init_timeout_ms;
  if (config->timeout_ms != HKT_UNDEFINED) s.timeout_ms = config->timeout_ms;
  if (config->transport != nullptr) s.transport = config->transport;
  if (config->size < sizeof(hktConfig_t)) return s;
  if (config->determinism > HKT_DETERMINISM_R4)
    return error(hktInvalidArgument, "%s: config.determinism is %u; known are HKT_DETERMINISM_R1 (1) to R4 (4)",
                 function, config->determinism);
  if (config->reserved != 0)
    return error(hktInvalidArgument, "%s: config.reserved is %u, must be 0", function, config->reserved);
  if (config->determinism != HKT_DETERMINISM_DEFAULT)
    s.determinism = static_cast<hktDeterminism_t>(config->determinism);
  return s;
}

Status check_not_forked(const char* function, hktComm_t comm) {
  if (!comm->comm->forked()) return {};
  return error(hktInvalidUsage, "%s: this process was forked from the one that made the communicator", function);
}

// `meet` makes the rendezvous for a deadline.
template <class Meet>
hktResult_t init(const char* function, hktComm_t* comm, const hktConfig_t* config, Meet&& meet) {
  return guarded(function, [&]() -> Status {
    HKT_TRY(check_pointer(function, "comm", comm));
    *comm = nullptr;
    env::warn_unknown();
    HKT_ASSIGN(const CommSettings s, settings(function, config));
    HKT_ASSIGN(const Deadline deadline, init_deadline(s));
    auto handle = std::make_unique<hktComm>();  // nothing may fail once the others have theirs
    HKT_ASSIGN(std::unique_ptr<Rendezvous> rendezvous, meet(deadline));
    HKT_ASSIGN(handle->comm, bring_up(*rendezvous, s, deadline));
    *comm = handle.release();
    return {};
  });
}

// `make` makes a communicator from `parent`, perhaps none.
template <class Make>
hktResult_t derive(const char* function, hktComm_t parent, hktComm_t* comm, const hktConfig_t* config, Make&& make) {
  return guarded(function, [&]() -> Status {
    HKT_TRY(check_pointer(function, "comm", comm));
    *comm = nullptr;
    if (!valid(parent))
      return error(hktInvalidArgument, "%s: parent %s", function, parent == nullptr ? "is null" : "has been destroyed");
    HKT_TRY(check_no_operation(function));
    HKT_ASSIGN(const CommSettings s, settings(function, config));
    auto handle = std::make_unique<hktComm>();  // nothing may fail once the others have theirs
    Result<std::unique_ptr<Communicator>> made = make(*parent->comm, s);
    if (!made) return error(made.error().code, "%s: %s", function, made.error().text.c_str());
    if (*made == nullptr) return {};
    handle->comm = std::move(*made);
    *comm = handle.release();
    return {};
  });
}

}  // namespace

hktResult_t fail(Error e) {
  group_fail(e);
  last_error = std::move(e.text);
  return e.code;
}

Error unusable(const char* function, hktComm_t comm) {
  if (comm == nullptr)
    return error(hktInvalidArgument,
                 "%s: comm is null: it was never made, or hktCommSplit gave this rank none (HKT_SPLIT_NOCOLOR)",
                 function);
  if (comm->comm == nullptr) return error(hktInvalidArgument, "%s: comm has been destroyed", function);
  return in_an_operation(function);
}

Error in_an_operation(const char* function) {
  return error(hktInvalidUsage, "%s: called by an operation (hktReduceFn), which must not call Hocket", function);
}

Status check_pointer(const char* function, const char* name, const void* p) {
  if (p == nullptr) return error(hktInvalidArgument, "%s: %s is null", function, name);
  return {};
}

}  // namespace hocket

using namespace hocket;  // NOLINT: this file is the bridge between the two worlds

extern "C" {

hktResult_t hktGetVersion(int* version) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_pointer("hktGetVersion", "version", version));
    *version = HKT_VERSION_CODE;
    return {};
  });
}

const char* hktGetErrorString(hktResult_t result) {
  switch (result) {
    case hktSuccess:
      return "no error";
    case hktDeviceError:
      return "device error";
    case hktSystemError:
      return "system error";
    case hktInternalError:
      return "internal error";
    case hktInvalidArgument:
      return "invalid argument";
    case hktInvalidUsage:
      return "invalid usage";
    case hktRemoteError:
      return "remote error";
    case hktInProgress:
      return "in progress";
    case hktTimeout:
      return "timeout";
    case hktMismatch:
      return "mismatched calls";
    case hktAborted:
      return "aborted";
  }
  return "unknown result code";
}

const char* hktGetLastError(void) { return last_error.c_str(); }

hktResult_t hktGetTypeSize(hktDataType_t type, size_t* bytes) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_pointer("hktGetTypeSize", "bytes", bytes));
    if (!valid(type))
      return error(hktInvalidArgument, "hktGetTypeSize: type is %d, which is no hktDataType_t", static_cast<int>(type));
    *bytes = type_size(type);
    return {};
  });
}

hktResult_t hktGetUniqueId(hktUniqueId* id) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_pointer("hktGetUniqueId", "id", id));
    return make_unique_id(id);
  });
}

hktResult_t hktCommInitRank(hktComm_t* comm, int nranks, hktUniqueId id, int rank, const hktConfig_t* config) {
  return init("hktCommInitRank", comm, config, [&](Deadline deadline) -> Result<std::unique_ptr<Rendezvous>> {
    HKT_TRY(check_place("hktCommInitRank", rank, nranks));
    return Rendezvous::open(id, nranks, rank, deadline);
  });
}

hktResult_t hktCommInitUrl(hktComm_t* comm, const char* url, const hktConfig_t* config) {
  return init("hktCommInitUrl", comm, config, [&](Deadline deadline) -> Result<std::unique_ptr<Rendezvous>> {
    HKT_TRY(check_pointer("hktCommInitUrl", "url", url));
    HKT_ASSIGN(Identity me, parse_url(url));
    return meet(std::move(me), deadline);
  });
}

hktResult_t hktCommInitEnv(hktComm_t* comm, const hktConfig_t* config) {
  return init("hktCommInitEnv", comm, config, [&](Deadline deadline) -> Result<std::unique_ptr<Rendezvous>> {
    HKT_ASSIGN(Identity me, identify(process_environment(), deadline));
    return meet(std::move(me), deadline);
  });
}

hktResult_t hktCommInitStore(hktComm_t* comm, int nranks, int rank, const hktStore_t* store,
                             const hktConfig_t* config) {
  return init("hktCommInitStore", comm, config, [&](Deadline deadline) -> Result<std::unique_ptr<Rendezvous>> {
    HKT_TRY(check_place("hktCommInitStore", rank, nranks));
    HKT_TRY(check_pointer("hktCommInitStore", "store", store));
    if (store->size < sizeof(hktStore_t) || store->put == nullptr || store->get == nullptr || store->wait == nullptr)
      return error(hktInvalidArgument, "hktCommInitStore: store.size, put, get and wait must all be set");
    return Rendezvous::open(*store, nranks, rank, deadline);
  });
}

hktResult_t hktCommSplit(hktComm_t parent, int color, int key, hktComm_t* comm, const hktConfig_t* config) {
  return derive(__func__, parent, comm, config,
                [&](Communicator& from, const CommSettings& s) { return split(from, {color, key}, s); });
}

hktResult_t hktCommDup(hktComm_t parent, hktComm_t* comm, const hktConfig_t* config) {
  return derive(__func__, parent, comm, config,
                [](Communicator& from, const CommSettings& s) { return duplicate(from, s); });
}

hktResult_t hktCommCreate(hktComm_t parent, const int* ranks, int nranks, int tag, hktComm_t* comm,
                          const hktConfig_t* config) {
  return derive(__func__, parent, comm, config,
                [&](Communicator& from, const CommSettings& s) -> Result<std::unique_ptr<Communicator>> {
                  if (ranks == nullptr) return error(hktInvalidArgument, "ranks is null");
                  if (nranks < 1 || nranks > from.size())
                    return error(hktInvalidArgument, "nranks is %d, must be in [1, %d]", nranks, from.size());
                  return create_child(from, std::vector<int>(ranks, ranks + nranks), tag, s);
                });
}

hktResult_t hktCommFinalize(hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommFinalize", comm));
    HKT_TRY(check_no_operation("hktCommFinalize"));
    const Status done = finalize(*comm->comm);
    if (!done.ok()) return error(done.error().code, "hktCommFinalize: %s", done.error().text.c_str());
    return {};
  });
}

hktResult_t hktCommRank(hktComm_t comm, int* rank) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommRank", comm));
    HKT_TRY(check_pointer("hktCommRank", "rank", rank));
    *rank = comm->comm->rank();
    return {};
  });
}

hktResult_t hktCommCount(hktComm_t comm, int* count) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommCount", comm));
    HKT_TRY(check_pointer("hktCommCount", "count", count));
    *count = comm->comm->size();
    return {};
  });
}

hktResult_t hktCommGetAsyncError(hktComm_t comm, hktResult_t* async) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommGetAsyncError", comm));
    HKT_TRY(check_pointer("hktCommGetAsyncError", "async", async));
    HKT_TRY(check_not_forked("hktCommGetAsyncError", comm));
    *async = comm->comm->async_error();
    return {};
  });
}

hktResult_t hktCommAbort(hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommAbort", comm));
    HKT_TRY(check_not_forked("hktCommAbort", comm));
    comm->comm->abort();
    return {};
  });
}

hktResult_t hktCommDestroy(hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommDestroy", comm));
    HKT_TRY(check_no_operation("hktCommDestroy"));
    if (comm->comm->gate()->grouped.load(std::memory_order_relaxed) != 0)
      return error(hktInvalidUsage,
                   "hktCommDestroy: the communicator has calls in a group that is open; call hktGroupEnd first");
    static std::mutex mutex;
    static hktComm* destroyed = nullptr;
    // Its last goodbye may take a while, during which other threads destroy theirs.
    const std::unique_ptr<Communicator> last = std::move(comm->comm);
    const std::lock_guard lock(mutex);
    comm->next_destroyed = std::exchange(destroyed, comm);
    return {};
  });
}

hktResult_t hktRedOpCreatePreMulSum(hktRedOp_t* op, const void* scalar, hktDataType_t type, hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktRedOpCreatePreMulSum", comm));
    HKT_TRY(check_no_operation("hktRedOpCreatePreMulSum"));
    HKT_TRY(check_pointer("hktRedOpCreatePreMulSum", "op", op));
    HKT_TRY(check_pointer("hktRedOpCreatePreMulSum", "scalar", scalar));
    if (!valid(type))
      return error(hktInvalidArgument, "hktRedOpCreatePreMulSum: type is %d, which is no hktDataType_t",
                   static_cast<int>(type));
    Operation made;
    made.kind = OpKind::pre_mul_sum;
    made.type = type;
    std::memcpy(made.scalar.data(), scalar, type_size(type));
    HKT_ASSIGN(*op, comm->comm->make_op(made));
    return {};
  });
}

hktResult_t hktRedOpCreate(hktRedOp_t* op, hktReduceFn fn, int commutative, void* context, hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktRedOpCreate", comm));
    HKT_TRY(check_no_operation("hktRedOpCreate"));
    HKT_TRY(check_pointer("hktRedOpCreate", "op", op));
    if (fn == nullptr) return error(hktInvalidArgument, "hktRedOpCreate: fn is null");
    Operation made;
    made.kind = commutative != 0 ? OpKind::commutative : OpKind::in_rank_order;
    made.fn = fn;
    made.context = context;
    HKT_ASSIGN(*op, comm->comm->make_op(made));
    return {};
  });
}

hktResult_t hktRedOpDestroy(hktRedOp_t op, hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktRedOpDestroy", comm));
    HKT_TRY(check_no_operation("hktRedOpDestroy"));
    const Status destroyed = comm->comm->destroy_op(op);
    if (!destroyed.ok()) return error(destroyed.error().code, "hktRedOpDestroy: %s", destroyed.error().text.c_str());
    return {};
  });
}

}  // extern "C"
