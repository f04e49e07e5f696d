#include "api/arguments.h"

#include <algorithm>
#include <string>
#include <vector>

namespace hocket {
namespace {

using Wide = unsigned long long;

Status check_type(const char* function, hktDataType_t type) {
  if (valid(type)) return {};
  return error(hktInvalidArgument, "%s: type is %d, which is no hktDataType_t", function, static_cast<int>(type));
}

// A part of a buffer, in bytes.
struct Range {
  uint64_t begin, end;
};

uint64_t overlap(Range a, Range b) {
  const uint64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  return begin < end ? end - begin : 0;
}

// "equal (in place)" and the like: the one overlap that is allowed.
std::string in_place(Collective c, bool table) {
  if (in_is_own_block(c))
    return table ? "sendbuf == recvbuf + displs[rank] (in place)" : "sendbuf == recvbuf + rank * sendcount (in place)";
  if (out_is_own_block(c))
    return table ? "recvbuf == sendbuf + displs[rank] (in place)" : "recvbuf == sendbuf + rank * recvcount (in place)";
  return "equal (in place)";
}

// What the table of a call is about, and this rank's own block.
struct Table {
  const char* function;
  const BlockData& data;
  uint64_t nranks;
  bool receives;  // the table is that of recvbuf
  uint64_t size;  // bytes of an element

  const char* name() const { return receives ? "recvbuf" : "sendbuf"; }
  Range block(uint64_t c, uint64_t packed) const {
    const uint64_t at = data.displs != nullptr ? data.displs[c] : packed;
    return {at * size, (at + data.counts[c]) * size};
  }
};

// Every entry, and the sum of all, in 63 bits of bytes.
Status check_extents(const Table& t) {
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) / t.size;
  uint64_t total = 0;
  for (uint64_t c = 0; c < t.nranks; ++c) {
    const uint64_t count = t.data.counts[c];
    if (count > most || total > most - count)
      return error(hktInvalidArgument, "%s: counts[%llu] is %llu of %s: with it, all blocks overflow 63 bits of bytes",
                   t.function, static_cast<Wide>(c), static_cast<Wide>(count), type_name(t.data.type));
    total += count;
    if (t.data.displs != nullptr && t.data.displs[c] > most - count)
      return error(hktInvalidArgument,
                   "%s: displs[%llu] is %llu: a block of %llu of %s there overflows 63 bits of bytes", t.function,
                   static_cast<Wide>(c), static_cast<Wide>(t.data.displs[c]), static_cast<Wide>(count),
                   type_name(t.data.type));
  }
  return {};
}

// No output shares a byte with another output, nor with an input but its own, which it may be.
Status check_apart(const char* function, const BufferList& l) {
  struct Output {
    Range bytes;
    size_t index;
  };
  thread_local std::vector<Output> outputs;  // kept: no allocation in the steady state
  const size_t size = type_size(l.type);
  const auto range = [&](const void* buf, size_t b) { return Range{address(buf), address(buf) + l.counts[b] * size}; };
  outputs.clear();
  for (size_t b = 0; b < l.buffers; ++b)
    if (l.counts[b] != 0) outputs.push_back({range(l.out[b], b), b});
  const auto before = [](const Output& x, const Output& y) { return x.bytes.begin < y.bytes.begin; };
  if (!std::is_sorted(outputs.begin(), outputs.end(), before)) std::sort(outputs.begin(), outputs.end(), before);
  for (size_t i = 1; i < outputs.size(); ++i) {
    const Output &a = outputs[i - 1], &b = outputs[i];
    if (const uint64_t bytes = overlap(a.bytes, b.bytes); bytes != 0)
      return error(hktInvalidArgument, "%s: recvbufs[%zu] and recvbufs[%zu] overlap by %llu bytes", function,
                   std::min(a.index, b.index), std::max(a.index, b.index), static_cast<Wide>(bytes));
  }
  for (size_t b = 0; b < l.buffers; ++b) {
    if (l.counts[b] == 0 || l.in[b] == l.out[b]) continue;
    const Range in = range(l.in[b], b);
    // Outputs are apart from each other, so their ends ascend as well.
    const auto first =
        std::partition_point(outputs.begin(), outputs.end(), [&](const Output& o) { return o.bytes.end <= in.begin; });
    if (first == outputs.end()) continue;
    if (const uint64_t bytes = overlap(in, first->bytes); bytes != 0)
      return error(hktInvalidArgument, "%s: sendbufs[%zu] and recvbufs[%zu] overlap by %llu bytes; %s", function, b,
                   first->index, static_cast<Wide>(bytes),
                   first->index == b ? "they must be equal (in place) or disjoint" : "they must be disjoint");
  }
  return {};
}

}  // namespace

Status explain_buffers(const char* function, const Data& d, const Uses& u) {
  HKT_TRY(check_type(function, d.type));
  const size_t size = checked_size(d.type);
  const char* name = in_is_own_block(u.collective)    ? "sendcount"
                     : out_is_own_block(u.collective) ? "recvcount"
                                                      : "count";
  if (d.count > static_cast<uint64_t>(INT64_MAX) / size / u.blocks)
    return error(hktInvalidArgument, "%s: %s %llu of %s%s overflows 63 bits of bytes", function, name,
                 static_cast<Wide>(d.count), type_name(d.type),
                 u.blocks > 1 ? format(" for each of %u ranks", u.blocks).c_str() : "");
  if (d.count == 0) return {};
  if (u.reads != 0) HKT_TRY(check_pointer(function, "sendbuf", d.in));
  if (u.writes != 0) HKT_TRY(check_pointer(function, "recvbuf", d.out));
  if (u.reads == 0 || u.writes == 0) return {};
  const uint64_t s = address(d.in), r = address(d.out), block = d.count * size;
  const uint64_t bytes = overlap({s, s + u.reads * block}, {r, r + u.writes * block});
  if (bytes == 0 || s - r == static_cast<uint64_t>(u.in_place) * block) return {};
  return error(hktInvalidArgument, "%s: sendbuf and recvbuf overlap by %llu bytes; they must be %s or disjoint",
               function, static_cast<Wide>(bytes), in_place(u.collective, false).c_str());
}

Status check_blocks(const char* function, Collective collective, const BlockData& data, int nranks, int rank) {
  HKT_TRY(check_type(function, data.type));
  HKT_TRY(check_pointer(function, "counts", data.counts));
  const auto me = static_cast<uint64_t>(rank);
  const Table t{function, data, static_cast<uint64_t>(nranks), in_is_own_block(collective), type_size(data.type)};
  HKT_TRY(check_extents(t));
  const char* own_name = t.receives ? "sendbuf" : "recvbuf";
  const void* own = t.receives ? data.in : data.out;
  const void* all = t.receives ? data.out : data.in;
  const uint64_t bytes = data.counts[me] * t.size;
  if (bytes != 0) HKT_TRY(check_pointer(function, own_name, own));
  if (std::any_of(data.counts, data.counts + nranks, [](size_t count) { return count != 0; }))
    HKT_TRY(check_pointer(function, t.name(), all));

  const Range mine{address(own), address(own) + bytes};
  bool in_place_here = false;
  uint64_t packed = 0;
  for (uint64_t c = 0; c < t.nranks; packed += data.counts[c++]) {
    const Range b = t.block(c, packed);
    const uint64_t shared = overlap(mine, {address(all) + b.begin, address(all) + b.end});
    if (shared == 0) continue;
    if (c == me && address(all) + b.begin == mine.begin) {
      in_place_here = true;
      continue;
    }
    return error(hktInvalidArgument,
                 "%s: %s and the block of rank %llu in %s overlap by %llu bytes; they must be %s or "
                 "disjoint",
                 function, own_name, static_cast<Wide>(c), t.name(), static_cast<Wide>(shared),
                 in_place(collective, true).c_str());
  }
  // Blocks that are only read may share bytes, unless the result goes into one of them.
  if (!t.receives && !in_place_here) return {};
  return check_disjoint(function, {t.name(), data.counts, data.displs, t.nranks, data.type});
}

// In ascending order, as tables mostly are, that is one look at each.
Status check_disjoint(const char* function, const BlockPlaces& b) {
  if (b.displs == nullptr) return {};
  const size_t *displs = b.displs, *counts = b.counts;
  uint64_t end = 0;
  bool ascending = true;
  for (uint64_t c = 0; c < b.nranks && ascending; ++c) {
    if (counts[c] == 0) continue;
    ascending = displs[c] >= end;
    end = displs[c] + counts[c];
  }
  if (ascending) return {};

  thread_local std::vector<uint64_t> order;  // kept: no allocation in the steady state
  order.clear();
  for (uint64_t c = 0; c < b.nranks; ++c)
    if (counts[c] != 0) order.push_back(c);
  std::sort(order.begin(), order.end(), [&](uint64_t x, uint64_t y) { return displs[x] < displs[y]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint64_t x = std::min(order[i - 1], order[i]), y = std::max(order[i - 1], order[i]);
    const uint64_t shared = overlap({displs[x], displs[x] + counts[x]}, {displs[y], displs[y] + counts[y]});
    if (shared != 0)
      return error(
          hktInvalidArgument,
          "%s: the blocks of ranks %llu and %llu in %s overlap by %llu bytes (displs %llu and %llu, counts %llu and "
          "%llu)",
          function, static_cast<Wide>(x), static_cast<Wide>(y), b.name, static_cast<Wide>(shared) * type_size(b.type),
          static_cast<Wide>(displs[x]), static_cast<Wide>(displs[y]), static_cast<Wide>(counts[x]),
          static_cast<Wide>(counts[y]));
  }
  return {};
}

Status check_list(const char* function, const BufferList& l) {
  HKT_TRY(check_type(function, l.type));
  if (l.buffers == 0) return {};
  if (l.buffers > UINT32_MAX)
    return error(hktInvalidArgument, "%s: nbufs is %zu, must be at most %u", function, l.buffers, UINT32_MAX);
  HKT_TRY(check_pointer(function, "sendbufs", l.in));
  HKT_TRY(check_pointer(function, "recvbufs", l.out));
  HKT_TRY(check_pointer(function, "counts", l.counts));
  const uint64_t size = checked_size(l.type), most = static_cast<uint64_t>(INT64_MAX) / size;
  uint64_t total = 0;
  for (size_t b = 0; b < l.buffers; ++b) {
    const uint64_t count = l.counts[b];
    if (count > most - total)
      return error(hktInvalidArgument, "%s: counts[%zu] is %llu of %s: with it, all buffers overflow 63 bits of bytes",
                   function, b, static_cast<Wide>(count), type_name(l.type));
    total += count;
    if (count != 0 && (l.in[b] == nullptr || l.out[b] == nullptr))
      return error(hktInvalidArgument, "%s: %s[%zu] is null, and counts[%zu] is %llu", function,
                   l.in[b] == nullptr ? "sendbufs" : "recvbufs", b, b, static_cast<Wide>(count));
  }
  return check_apart(function, l);
}

Status check_root(const char* function, int root, int nranks) {
  if (root >= 0 && root < nranks) return {};
  return error(hktInvalidArgument, "%s: root is %d, must be in [0, %d)", function, root, nranks);
}

Status explain_op(const char* function, hktDataType_t type, hktRedOp_t op) {
  if (is_handle(static_cast<uint32_t>(op))) return {};  // the communicator knows
  if (!valid(op))
    return error(hktInvalidArgument, "%s: op is %d, which is no hktRedOp_t", function, static_cast<int>(op));
  if (const char* why = unsupported(type, op); why != nullptr)
    return error(hktInvalidArgument, "%s: %s of %s: %s", function, op_name(op), type_name(type), why);
  return {};
}

}  // namespace hocket
