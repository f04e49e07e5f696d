// The collectives of the C ABI: argument checks and nothing else.
#include "api/handle.h"
#include "base/types.h"

namespace hocket {

Status read_options(const char* function, const hktCallOptions_t* options, CallOptions& o) {
  if (options->size < sizeof(hktCallOptions_t) || options->version / 10000 != HKT_MAJOR || options->reserved != 0)
    return error(hktInvalidArgument, "%s: options were not initialised with HKT_CALL_OPTIONS_INITIALIZER", function);
  if (options->stream != HKT_STREAM_HOST)
    return error(hktInvalidUsage, "%s: options.stream: this build works on host memory only; use HKT_STREAM_HOST",
                 function);
  o.timeout_ms = options->timeout_ms;
  o.label = options->label;
  o.request = options->request;
  return {};
}

namespace {

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

}  // namespace
}  // namespace hocket

using namespace hocket;  // NOLINT: this file is the bridge between the two worlds

extern "C" {

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
