// The C ABI: argument checks and nothing else. Every function turns a Status into a code and keeps the text for the
// thread.
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "base/env.h"
#include "base/types.h"
#include "comm/bringup.h"
#include "comm/communicator.h"
#include "hocket/hocket.h"

// A handle. Its few bytes outlive hktCommDestroy on purpose, so that the use of a destroyed handle is an error and not
// a crash; they stay linked to each other, so that leak checkers see them.
struct hktComm {
  std::unique_ptr<hocket::Communicator> comm;  // null once destroyed
  hktComm* next_destroyed = nullptr;
};

namespace hocket {
namespace {

thread_local std::string last_error;

hktResult_t fail(Error e) {
  last_error = std::move(e.text);
  return e.code;
}

hktResult_t done(Status status) { return status.ok() ? hktSuccess : fail(std::move(status.error())); }

// Runs `body` (returning Status) so that no exception crosses the ABI.
template <class Body>
hktResult_t guarded(const char* function, Body&& body) {
  try {
    return done(body());
  } catch (const std::bad_alloc&) {
    return fail(error(hktSystemError, "%s: out of memory", function));
  } catch (const std::exception& e) {
    return fail(error(hktInternalError, "%s: %s", function, e.what()));
  }
}

// The checks of collectives are split: what passes costs a few compares, what fails goes to a function that finds the
// words.
bool usable(hktComm_t comm) { return comm != nullptr && comm->comm != nullptr; }

Error unusable(const char* function, hktComm_t comm) {
  if (comm == nullptr) return error(hktInvalidArgument, "%s: comm is null", function);
  return error(hktInvalidArgument, "%s: comm has been destroyed", function);
}

Status check_comm(const char* function, hktComm_t comm) {
  if (!usable(comm)) return unusable(function, comm);
  return {};
}

Status check_pointer(const char* function, const char* name, const void* p) {
  if (p == nullptr) return error(hktInvalidArgument, "%s: %s is null", function, name);
  return {};
}

Status check_place(const char* function, int rank, int nranks) {
  if (Status s = check_rank(rank, nranks); !s.ok())
    return error(s.error().code, "%s: %s", function, s.error().text.c_str());
  return {};
}

Result<CommSettings> settings(const char* function, const hktConfig_t* config) {
  CommSettings s;
  if (config == nullptr) return s;
  if (config->magic != HKT_CONFIG_MAGIC || config->size < sizeof(hktConfig_t))
    return error(hktInvalidArgument, "%s: config was not initialised with HKT_CONFIG_INITIALIZER", function);
  if (config->version / 10000 != HKT_MAJOR)
    return error(hktInvalidArgument, "%s: config.version is %u, this library is %u", function, config->version,
                 HKT_VERSION_CODE);
  if (config->init_timeout_ms != HKT_UNDEFINED) s.init_timeout_ms = config->init_timeout_ms;
  if (config->timeout_ms != HKT_UNDEFINED) s.timeout_ms = config->timeout_ms;
  if (config->transport != nullptr) s.transport = config->transport;
  return s;
}

// Not null.
Status read_options(const char* function, const hktCallOptions_t* options, CallOptions& o) {
  if (options->size < sizeof(hktCallOptions_t) || options->version / 10000 != HKT_MAJOR || options->reserved != 0)
    return error(hktInvalidArgument, "%s: options were not initialised with HKT_CALL_OPTIONS_INITIALIZER", function);
  if (options->stream != HKT_STREAM_HOST)
    return error(hktInvalidUsage, "%s: options.stream: this build works on host memory only; use HKT_STREAM_HOST",
                 function);
  if (options->request != nullptr)
    return error(hktInvalidUsage,
                 "%s: options.request: non-blocking calls are not available in version %d.%d; use null", function,
                 HKT_MAJOR, HKT_MINOR);
  o.timeout_ms = options->timeout_ms;
  o.label = options->label;
  return {};
}

// Type, count and the two buffers of a collective. `sends`: sendbuf is read on this rank.
struct Buffers {
  const void* send;
  const void* recv;
  uint64_t count;
  hktDataType_t type;
  bool sends;
};

// Good buffers, the only case that has to be quick.
bool good_buffers(const Buffers& b) {
  const size_t size = type_size(b.type);
  if (size == 0 || b.count > static_cast<uint64_t>(INT64_MAX) / 16) return false;
  if (b.count == 0) return true;
  if (b.recv == nullptr || (b.sends && b.send == nullptr)) return false;
  const auto s = reinterpret_cast<uintptr_t>(b.send), r = reinterpret_cast<uintptr_t>(b.recv);
  return !b.sends || s == r || (s < r ? r - s : s - r) >= b.count * size;
}

Status check_buffers(const char* function, const Buffers& b) {
  if (!valid(b.type))
    return error(hktInvalidArgument, "%s: type is %d, which is no hktDataType_t", function, static_cast<int>(b.type));
  const size_t size = type_size(b.type);
  if (b.count > static_cast<uint64_t>(INT64_MAX) / size)
    return error(hktInvalidArgument, "%s: count %llu of %s overflows 63 bits of bytes", function,
                 static_cast<unsigned long long>(b.count), type_name(b.type));
  if (b.count == 0) return {};
  if (b.sends) HKT_TRY(check_pointer(function, "sendbuf", b.send));
  HKT_TRY(check_pointer(function, "recvbuf", b.recv));
  const auto s = reinterpret_cast<uintptr_t>(b.send), r = reinterpret_cast<uintptr_t>(b.recv);
  const uint64_t bytes = b.count * size;
  if (b.sends && s != r && (s < r ? r - s : s - r) < bytes)
    return error(hktInvalidArgument,
                 "%s: sendbuf and recvbuf overlap by %llu bytes; they must be equal (in place) or disjoint", function,
                 static_cast<unsigned long long>(bytes - (s < r ? r - s : s - r)));
  return {};
}

Status hand_out(hktComm_t* out, std::unique_ptr<Communicator> made) {
  *out = new hktComm{std::move(made), nullptr};
  return {};
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
    HKT_ASSIGN(std::unique_ptr<Rendezvous> rendezvous, meet(deadline));
    HKT_ASSIGN(std::unique_ptr<Communicator> made, bring_up(*rendezvous, s, deadline));
    return hand_out(comm, std::move(made));
  });
}

}  // namespace
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
    HKT_ASSIGN(const Identity me, parse_url(url));
    return Rendezvous::open(me, deadline);
  });
}

hktResult_t hktCommInitEnv(hktComm_t* comm, const hktConfig_t* config) {
  return init("hktCommInitEnv", comm, config, [&](Deadline deadline) -> Result<std::unique_ptr<Rendezvous>> {
    HKT_ASSIGN(const Identity me, parse_url(env::get("HOCKET_INIT").value_or("env://")));
    return Rendezvous::open(me, deadline);
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
    *async = comm->comm->async_error();
    return {};
  });
}

hktResult_t hktCommAbort(hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommAbort", comm));
    comm->comm->abort();
    return {};
  });
}

hktResult_t hktCommDestroy(hktComm_t comm) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_comm("hktCommDestroy", comm));
    static std::mutex mutex;
    static hktComm* destroyed = nullptr;
    const std::lock_guard lock(mutex);
    const std::unique_ptr<Communicator> last = std::move(comm->comm);
    comm->next_destroyed = std::exchange(destroyed, comm);
    return {};
  });
}

hktResult_t hktAllReduce(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktRedOp_t op,
                         hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    if (!usable(comm)) return unusable("hktAllReduce", comm);
    const Buffers buffers{sendbuf, recvbuf, count, type, true};
    if (!good_buffers(buffers)) HKT_TRY(check_buffers("hktAllReduce", buffers));
    if (!valid(op))
      return error(hktInvalidArgument, "hktAllReduce: op is %d, which is no hktRedOp_t", static_cast<int>(op));
    if (const char* why = unsupported(type, op); why != nullptr)
      return error(hktInvalidArgument, "hktAllReduce: %s of %s: %s", op_name(op), type_name(type), why);
    CallOptions o;
    if (options != nullptr) HKT_TRY(read_options("hktAllReduce", options, o));
    return comm->comm->all_reduce(sendbuf, recvbuf, count, type, op, o);
  });
}

hktResult_t hktBroadcast(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, int root, hktComm_t comm,
                         const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    if (!usable(comm)) return unusable("hktBroadcast", comm);
    const int n = comm->comm->size();
    if (root < 0 || root >= n)
      return error(hktInvalidArgument, "hktBroadcast: root is %d, must be in [0, %d)", root, n);
    const Buffers buffers{sendbuf, recvbuf, count, type, comm->comm->rank() == root};
    if (!good_buffers(buffers)) HKT_TRY(check_buffers("hktBroadcast", buffers));
    CallOptions o;
    if (options != nullptr) HKT_TRY(read_options("hktBroadcast", options, o));
    return comm->comm->broadcast(sendbuf, recvbuf, count, type, root, o);
  });
}

hktResult_t hktBarrier(hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    if (!usable(comm)) return unusable("hktBarrier", comm);
    CallOptions o;
    if (options != nullptr) HKT_TRY(read_options("hktBarrier", options, o));
    return comm->comm->barrier(o);
  });
}

}  // extern "C"
