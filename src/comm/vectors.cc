#include "comm/vectors.h"

#include <algorithm>
#include <vector>

#include "comm/p2p.h"
#include "comm/watch.h"

namespace hocket {
namespace {

TransferSpec part(int peer, void* buf, uint64_t count, hktDataType_t type) {
  TransferSpec t;
  t.buf = buf;
  t.count = count;
  t.type = type;
  t.peer = peer;
  t.channel = Channel::internal;
  return t;
}

TransferSpec sent(TransferSpec t) {
  t.sends = true;
  return t;
}

// Where the blocks of a table are in memory.
class Places {
 public:
  Places(const void* buf, const BlockTable& table, int ranks, hktDataType_t type)
      : base_(const_cast<unsigned char*>(static_cast<const unsigned char*>(buf))),
        counts_(table.counts),
        size_(type_size(type)) {
    uint64_t at = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<size_t>(r);
      starts_.push_back(table.displs != nullptr ? table.displs[i] : at);
      at += counts_[i];
    }
  }
  uint64_t count(int rank) const { return counts_[static_cast<size_t>(rank)]; }
  void* at(int rank) const { return base_ == nullptr ? nullptr : base_ + starts_[static_cast<size_t>(rank)] * size_; }

 private:
  unsigned char* base_;
  const uint64_t* counts_;
  size_t size_;
  std::vector<uint64_t> starts_;
};

CallRecord record(Meeting meeting, const Rooted& how) {
  CallRecord r;
  r.collective = static_cast<uint32_t>(meeting);
  r.type = static_cast<uint32_t>(how.type);
  r.root = static_cast<uint32_t>(how.root);
  return r;
}

}  // namespace

Extent extent(const BlockTable& table, int ranks) {
  Extent e;
  uint64_t at = 0;
  bool any = false;
  for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
    const uint64_t first = table.displs != nullptr ? table.displs[r] : at, count = table.counts[r];
    at += count;
    if (count == 0) continue;
    e.first = any ? std::min(e.first, first) : first;
    e.end = any ? std::max(e.end, first + count) : first + count;
    any = true;
  }
  return e;
}

Status all_to_all_v(Communicator& comm, const VectorSend& send, const VectorReceive& receive, hktDataType_t type,
                    const CallOptions& options) {
  const int n = comm.size(), me = comm.rank();
  const Places from(send.buf, send.blocks, n, type), to(receive.buf, receive.blocks, n, type);
  std::vector<TransferSpec> parts;
  parts.reserve(2 * static_cast<size_t>(n));
  // Everybody begins with another one. Receives first: what comes in finds its place.
  for (int k = 0; k < n; ++k) {
    const int peer = (me - k + n) % n;
    parts.push_back(part(peer, to.at(peer), to.count(peer), type));
  }
  for (int k = 0; k < n; ++k) {
    const int peer = (me + k) % n;
    parts.push_back(sent(part(peer, from.at(peer), from.count(peer), type)));
  }
  return comm.exchange(record(Meeting::all_to_all_v, {0, type}), std::move(parts), options);
}

Status gather_v(Communicator& comm, const Block& mine, const VectorReceive& all, const Rooted& how,
                const CallOptions& options) {
  std::vector<TransferSpec> parts;
  if (comm.rank() == how.root) {
    const Places to(all.buf, all.blocks, comm.size(), how.type);
    for (int r = 0; r < comm.size(); ++r) parts.push_back(part(r, to.at(r), to.count(r), how.type));
  }
  parts.push_back(sent(part(how.root, const_cast<void*>(mine.send), mine.count, how.type)));
  return comm.exchange(record(Meeting::gather_v, how), std::move(parts), options);
}

Status scatter_v(Communicator& comm, const VectorSend& all, const Block& mine, const Rooted& how,
                 const CallOptions& options) {
  std::vector<TransferSpec> parts{part(how.root, mine.receive, mine.count, how.type)};
  if (comm.rank() == how.root) {
    const Places from(all.buf, all.blocks, comm.size(), how.type);
    for (int r = 0; r < comm.size(); ++r) parts.push_back(sent(part(r, from.at(r), from.count(r), how.type)));
  }
  return comm.exchange(record(Meeting::scatter_v, how), std::move(parts), options);
}

}  // namespace hocket
