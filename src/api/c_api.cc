// The collectives of the C ABI: argument checks and nothing else.
#include "api/arguments.h"
#include "api/handle.h"

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

// What every collective of equal blocks checks. `root` is of no meaning for those without one.
template <Collective kCollective>
struct Checked {
  const char* function;
  Data data;
  int root;
};

template <Collective kCollective>
Status check(const Checked<kCollective>& c, hktComm_t comm, const hktCallOptions_t* options, CallOptions& o) {
  if (!usable(comm)) [[unlikely]]
    return unusable(c.function, comm);
  const int n = comm->comm->size();
  if (is_rooted(kCollective)) HKT_TRY(check_root(c.function, c.root, n));
  HKT_TRY(check_buffers(c.function, c.data, uses(kCollective, n, comm->comm->rank(), c.root)));
  if (options != nullptr) HKT_TRY(read_options(c.function, options, o));
  return {};
}

// The same for blocks by a table.
struct CheckedBlocks {
  const char* function;
  Collective collective;
  BlockData data;
};

Status check(const CheckedBlocks& c, hktComm_t comm, const hktCallOptions_t* options, CallOptions& o) {
  if (!usable(comm)) return unusable(c.function, comm);
  HKT_TRY(check_blocks(c.function, c.collective, c.data, comm->comm->size(), comm->comm->rank()));
  if (options != nullptr) HKT_TRY(read_options(c.function, options, o));
  return {};
}

}  // namespace
}  // namespace hocket

using namespace hocket;  // NOLINT: this file is the bridge between the two worlds

extern "C" {

hktResult_t hktAllReduce(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktRedOp_t op,
                         hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::all_reduce> c{"hktAllReduce", {sendbuf, recvbuf, count, type}, 0};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    HKT_TRY(check_op(c.function, *comm->comm, type, op));
    return comm->comm->all_reduce(sendbuf, recvbuf, count, type, op, o);
  });
}

hktResult_t hktAllReduceList(const void* const* sendbufs, void* const* recvbufs, const size_t* counts, size_t nbufs,
                             hktDataType_t type, hktRedOp_t op, hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const char* const function = "hktAllReduceList";
    const BufferList list{sendbufs, recvbufs, counts, nbufs, type};
    if (!usable(comm)) return unusable(function, comm);
    HKT_TRY(check_list(function, list));
    HKT_TRY(check_op(function, *comm->comm, type, op));
    CallOptions o;
    if (options != nullptr) HKT_TRY(read_options(function, options, o));
    return all_reduce_list(*comm->comm, list, op, o);
  });
}

hktResult_t hktBroadcast(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, int root, hktComm_t comm,
                         const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::broadcast> c{"hktBroadcast", {sendbuf, recvbuf, count, type}, root};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
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

hktResult_t hktReduce(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktRedOp_t op, int root,
                      hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::reduce> c{"hktReduce", {sendbuf, recvbuf, count, type}, root};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    HKT_TRY(check_op(c.function, *comm->comm, type, op));
    return comm->comm->reduce(c.data, op, root, o);
  });
}

hktResult_t hktAllGather(const void* sendbuf, void* recvbuf, size_t sendcount, hktDataType_t type, hktComm_t comm,
                         const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::all_gather> c{"hktAllGather", {sendbuf, recvbuf, sendcount, type}, 0};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    return comm->comm->all_gather(c.data, o);
  });
}

hktResult_t hktReduceScatter(const void* sendbuf, void* recvbuf, size_t recvcount, hktDataType_t type, hktRedOp_t op,
                             hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::reduce_scatter> c{"hktReduceScatter", {sendbuf, recvbuf, recvcount, type}, 0};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    HKT_TRY(check_op(c.function, *comm->comm, type, op));
    return comm->comm->reduce_scatter(c.data, op, o);
  });
}

hktResult_t hktAllToAll(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktComm_t comm,
                        const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::all_to_all> c{"hktAllToAll", {sendbuf, recvbuf, count, type}, 0};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    return comm->comm->all_to_all(c.data, o);
  });
}

hktResult_t hktGather(const void* sendbuf, void* recvbuf, size_t sendcount, hktDataType_t type, int root,
                      hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::gather> c{"hktGather", {sendbuf, recvbuf, sendcount, type}, root};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    return comm->comm->gather(c.data, root, o);
  });
}

hktResult_t hktScatter(const void* sendbuf, void* recvbuf, size_t recvcount, hktDataType_t type, int root,
                       hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Checked<Collective::scatter> c{"hktScatter", {sendbuf, recvbuf, recvcount, type}, root};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    return comm->comm->scatter(c.data, root, o);
  });
}

hktResult_t hktAllGatherV(const void* sendbuf, void* recvbuf, const size_t* counts, const size_t* displs,
                          hktDataType_t type, hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const CheckedBlocks c{"hktAllGatherV", Collective::all_gather, {sendbuf, recvbuf, counts, displs, type}};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    return comm->comm->all_gather_v(c.data, o);
  });
}

hktResult_t hktReduceScatterV(const void* sendbuf, void* recvbuf, const size_t* counts, const size_t* displs,
                              hktDataType_t type, hktRedOp_t op, hktComm_t comm, const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const CheckedBlocks c{"hktReduceScatterV", Collective::reduce_scatter, {sendbuf, recvbuf, counts, displs, type}};
    CallOptions o;
    HKT_TRY(check(c, comm, options, o));
    HKT_TRY(check_op(c.function, *comm->comm, type, op));
    return comm->comm->reduce_scatter_v(c.data, op, o);
  });
}

}  // extern "C"
