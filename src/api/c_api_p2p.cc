// Requests, point-to-point messages, groups, and the collectives that are made of messages: argument checks and nothing
// else.
#include "api/arguments.h"
#include "api/handle.h"
#include "base/types.h"
#include "comm/p2p.h"
#include "comm/thread.h"
#include "comm/vectors.h"

namespace hocket {
namespace {

using ull = unsigned long long;

// What all calls of this file have.
struct Common {
  const char* function;
  hktDataType_t type;
  hktComm_t comm;
  const hktCallOptions_t* options;
};

Status check_common(const Common& c, CallOptions& o) {
  if (!usable(c.comm)) return unusable(c.function, c.comm);
  if (!valid(c.type))
    return error(hktInvalidArgument, "%s: type is %d, which is no hktDataType_t", c.function, static_cast<int>(c.type));
  if (c.options != nullptr) HKT_TRY(read_options(c.function, c.options, o));
  return {};
}

Status check_member(const Common& c, const char* name, int rank) {
  const int n = c.comm->comm->size();
  if (rank < 0 || rank >= n)
    return error(hktInvalidArgument, "%s: %s is %d, must be in [0, %d)", c.function, name, rank, n);
  return {};
}

// One buffer of `count` elements.
Status check_block(const Common& c, const char* name, const void* buf, uint64_t count) {
  if (count > static_cast<uint64_t>(INT64_MAX) / checked_size(c.type))
    return error(hktInvalidArgument, "%s: count %llu of %s overflows 63 bits of bytes", c.function,
                 static_cast<ull>(count), type_name(c.type));
  return count == 0 ? Status() : check_pointer(c.function, name, buf);
}

struct Table {
  const char* counts_name;
  const char* buf_name;
  const size_t* counts;
  const size_t* displs;
  const void* buf;

  BlockTable blocks() const {
    static_assert(sizeof(size_t) == sizeof(uint64_t));
    return {reinterpret_cast<const uint64_t*>(counts), reinterpret_cast<const uint64_t*>(displs)};
  }
};

Status check_table(const Common& c, const Table& t) {
  HKT_TRY(check_pointer(c.function, t.counts_name, t.counts));
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) / checked_size(c.type);
  uint64_t at = 0;
  for (size_t r = 0; r < static_cast<size_t>(c.comm->comm->size()); ++r) {
    const uint64_t first = t.displs != nullptr ? t.displs[r] : at;
    if (t.counts[r] > most || first > most - t.counts[r])
      return error(hktInvalidArgument, "%s: %s[%zu] is %llu, from element %llu: overflows 63 bits of bytes", c.function,
                   t.counts_name, r, static_cast<ull>(t.counts[r]), static_cast<ull>(first));
    at = first + t.counts[r];
  }
  const Extent e = extent(t.blocks(), c.comm->comm->size());
  return e.end == e.first ? Status() : check_pointer(c.function, t.buf_name, t.buf);
}

// The same of one that is written.
Status check_written(const Common& c, const Table& t) {
  HKT_TRY(check_table(c, t));
  const auto n = static_cast<uint64_t>(c.comm->comm->size());
  return check_disjoint(c.function, {t.buf_name, t.counts, t.displs, n, c.type});
}

struct Bytes {
  uintptr_t from, to;
};
Bytes bytes(const void* buf, const Extent& e, size_t size) {
  const auto base = reinterpret_cast<uintptr_t>(buf);
  return {base + e.first * size, base + e.end * size};
}
bool overlap(const Bytes& a, const Bytes& b) {
  return a.from < a.to && b.from < b.to && a.from < b.to && b.from < a.to;
}

// The root's own block of gather_v and scatter_v: `buf` is its place in the table (in place), or apart from all blocks.
Status check_own_block(const Common& c, const Table& t, const char* name, const void* buf, uint64_t count) {
  const int n = c.comm->comm->size(), me = c.comm->comm->rank();
  const uint64_t expected = t.counts[static_cast<size_t>(me)];
  if (count != expected)
    return error(hktInvalidArgument, "%s: the root's own block has %llu elements, %s[%d] is %llu", c.function,
                 static_cast<ull>(count), t.counts_name, me, static_cast<ull>(expected));
  const size_t size = type_size(c.type);
  const Bytes own = bytes(buf, {0, count}, size);
  uint64_t packed = 0;
  for (int r = 0; r < n; packed += t.counts[static_cast<size_t>(r++)]) {
    const uint64_t first = t.displs != nullptr ? t.displs[static_cast<size_t>(r)] : packed;
    const Bytes block = bytes(t.buf, {first, first + t.counts[static_cast<size_t>(r)]}, size);
    if (!overlap(own, block) || (r == me && own.from == block.from)) continue;
    return error(hktInvalidArgument,
                 "%s: %s and the block of rank %d in %s overlap; it must be the root's own block there (in place) or "
                 "apart from all of them",
                 c.function, name, r, t.buf_name);
  }
  return {};
}

hktResult_t transfer(const Common& c, const TransferSpec& spec) {
  return guarded(c.function, [&]() -> Status {
    CallOptions o;
    HKT_TRY(check_common(c, o));
    // Only hktRecvMessage can say who it was.
    if (spec.peer != HKT_ANY_SOURCE || spec.message == nullptr) HKT_TRY(check_member(c, "peer", spec.peer));
    if (spec.tag < 0) return error(hktInvalidArgument, "%s: tag is %d, must not be negative", c.function, spec.tag);
    HKT_TRY(check_block(c, "buf", spec.buf, spec.count));
    return c.comm->comm->transfer(spec, o);
  });
}

}  // namespace
}  // namespace hocket

using namespace hocket;  // NOLINT: this file is the bridge between the two worlds

extern "C" {

hktResult_t hktRequestTest(hktRequest_t* request, int* done) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_no_operation("hktRequestTest"));
    HKT_TRY(check_pointer("hktRequestTest", "request", request));
    HKT_TRY(check_pointer("hktRequestTest", "done", done));
    bool finished = false;
    Status s = test_request(*request, finished);
    *done = finished ? 1 : 0;
    if (finished) *request = nullptr;
    return s;
  });
}

hktResult_t hktRequestWait(hktRequest_t* request) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_no_operation("hktRequestWait"));
    HKT_TRY(check_pointer("hktRequestWait", "request", request));
    bool finished = false;
    Status s = wait_request(*request, finished);
    if (finished) *request = nullptr;
    return s;
  });
}

hktResult_t hktCommProgress(hktComm_t comm, int* moved) {
  return guarded(__func__, [&]() -> Status {
    HKT_TRY(check_no_operation("hktCommProgress"));
    if (!usable(comm)) return unusable("hktCommProgress", comm);
    HKT_TRY(check_pointer("hktCommProgress", "moved", moved));
    bool any = false;
    HKT_TRY(comm->comm->progress(any));
    *moved = any ? 1 : 0;
    return {};
  });
}

hktResult_t hktSend(const void* buf, size_t count, hktDataType_t type, int peer, int tag, hktComm_t comm,
                    const hktCallOptions_t* options) {
  // Only read.
  return transfer({"hktSend", type, comm, options},
                  {const_cast<void*>(buf), count, type, peer, tag, Channel::user, true});
}

hktResult_t hktRecv(void* buf, size_t count, hktDataType_t type, int peer, int tag, hktComm_t comm,
                    const hktCallOptions_t* options) {
  return transfer({"hktRecv", type, comm, options}, {buf, count, type, peer, tag, Channel::user, false});
}

hktResult_t hktRecvMessage(void* buf, size_t count, hktDataType_t type, int peer, int tag, hktMessage_t* message,
                           hktComm_t comm, const hktCallOptions_t* options) {
  if (message == nullptr)
    return guarded(__func__, [&]() { return check_pointer("hktRecvMessage", "message", message); });
  return transfer({"hktRecvMessage", type, comm, options},
                  {buf, count, type, peer, tag, Channel::user, false, message});
}

hktResult_t hktGroupStart(void) {
  return guarded(__func__, []() -> Status {
    HKT_TRY(check_no_operation("hktGroupStart"));
    group_start();
    return {};
  });
}

hktResult_t hktGroupEnd(const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    CallOptions o;
    HKT_TRY(check_no_operation("hktGroupEnd"));
    if (options != nullptr) HKT_TRY(read_options("hktGroupEnd", options, o));
    if (o.timeout_ms != HKT_UNDEFINED || o.label != nullptr)
      return error(hktInvalidUsage, "hktGroupEnd: options.timeout_ms and options.label belong to the calls of a group");
    return group_end(o.request);
  });
}

hktResult_t hktAllToAllV(const void* sendbuf, const size_t* sendcounts, const size_t* sdispls, void* recvbuf,
                         const size_t* recvcounts, const size_t* rdispls, hktDataType_t type, hktComm_t comm,
                         const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Common c{"hktAllToAllV", type, comm, options};
    CallOptions o;
    HKT_TRY(check_common(c, o));
    const Table from{"sendcounts", "sendbuf", sendcounts, sdispls, sendbuf};
    const Table to{"recvcounts", "recvbuf", recvcounts, rdispls, recvbuf};
    HKT_TRY(check_table(c, from));
    HKT_TRY(check_written(c, to));
    const int n = comm->comm->size(), me = comm->comm->rank();
    const auto own = static_cast<size_t>(me);
    if (sendcounts[own] != recvcounts[own])
      return error(hktInvalidArgument, "hktAllToAllV: rank %d sends %zu elements to itself and expects %zu", me,
                   sendcounts[own], recvcounts[own]);
    const size_t size = type_size(type);
    if (overlap(bytes(sendbuf, extent(from.blocks(), n), size), bytes(recvbuf, extent(to.blocks(), n), size)))
      return error(hktInvalidArgument,
                   sendbuf == recvbuf
                       ? "hktAllToAllV: sendbuf and recvbuf are equal, but blocks of different sizes have "
                         "no place to be swapped in; give it two buffers"
                       : "hktAllToAllV: the blocks of sendbuf and recvbuf overlap");
    return all_to_all_v(*comm->comm, {sendbuf, from.blocks()}, {recvbuf, to.blocks()}, type, o);
  });
}

hktResult_t hktGatherV(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                       const size_t* displs, hktDataType_t type, int root, hktComm_t comm,
                       const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Common c{"hktGatherV", type, comm, options};
    CallOptions o;
    HKT_TRY(check_common(c, o));
    HKT_TRY(check_member(c, "root", root));
    HKT_TRY(check_block(c, "sendbuf", sendbuf, sendcount));
    const Table to{"recvcounts", "recvbuf", recvcounts, displs, recvbuf};
    if (comm->comm->rank() == root) {
      HKT_TRY(check_written(c, to));
      HKT_TRY(check_own_block(c, to, "sendbuf", sendbuf, sendcount));
    }
    return gather_v(*comm->comm, {sendbuf, nullptr, sendcount}, {recvbuf, to.blocks()}, {root, type}, o);
  });
}

hktResult_t hktScatterV(const void* sendbuf, const size_t* sendcounts, const size_t* displs, void* recvbuf,
                        size_t recvcount, hktDataType_t type, int root, hktComm_t comm,
                        const hktCallOptions_t* options) {
  return guarded(__func__, [&]() -> Status {
    const Common c{"hktScatterV", type, comm, options};
    CallOptions o;
    HKT_TRY(check_common(c, o));
    HKT_TRY(check_member(c, "root", root));
    HKT_TRY(check_block(c, "recvbuf", recvbuf, recvcount));
    const Table from{"sendcounts", "sendbuf", sendcounts, displs, sendbuf};
    if (comm->comm->rank() == root) {
      HKT_TRY(check_table(c, from));
      HKT_TRY(check_own_block(c, from, "recvbuf", recvbuf, recvcount));
    }
    return scatter_v(*comm->comm, {sendbuf, from.blocks()}, {nullptr, recvbuf, recvcount}, {root, type}, o);
  });
}

}  // extern "C"
