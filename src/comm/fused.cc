#include "comm/fused.h"

#include <vector>

#include "comm/digest.h"
#include "comm/reproducible.h"
#include "comm/watch.h"
#include "kernels/reduce_cpu.h"

namespace hocket {
namespace {

// First all large buffers, one run each, then the buckets.
class FusedList final : public Stages {
 public:
  // `one` is an order for a vector of this type and operation.
  void begin(const BufferList& list, const Order& one, FusedSizes sizes) {
    one_ = one;
    sizes_ = sizes;
    one_.op.reset();
    at_ = 0;
    first_ = last_ = 0;
    packed_ = false;
    large_.clear();
    small_.clear();
    for (size_t i = 0; i < list.buffers; ++i) {
      const uint64_t bytes = list.counts[i] * one.call.elem_size;
      if (bytes == 0) continue;
      (bytes >= sizes_.large ? large_ : small_)
          .push_back({static_cast<const unsigned char*>(list.in[i]), static_cast<unsigned char*>(list.out[i]), bytes});
    }
  }

  // The first run, without data; of an empty list, one of nothing.
  Order first() const {
    Order run = one_;
    if (!large_.empty())
      set(run, large_.front());
    else if (!small_.empty())
      set(run, bucket().all);
    return run;
  }

  bool next(Order& run, Staging& staging) override {
    if (at_ < large_.size()) {
      set(run, large_[at_++]);
      return true;
    }
    if (packed_) unpack(staging);
    first_ = last_;
    if (first_ == small_.size()) return false;
    set(run, fill(staging));
    return true;
  }

 private:
  struct Buffer {
    const unsigned char* in;
    unsigned char* out;
    uint64_t bytes;
  };

  void set(Order& run, const Buffer& buffer) const {
    run = one_;
    run.call.in = buffer.in;
    run.call.out = buffer.out;
    run.call.elems = run.record.count = buffer.bytes / one_.call.elem_size;
  }

  struct Bucket {
    Buffer all;   // as one, if they are joined
    bool joined;  // the buffers follow one another in memory, as a single one does
    size_t end;   // the first small one behind it
  };
  // The buffers from first_ on, as many as a bucket takes.
  Bucket bucket() const {
    Bucket b{small_[first_], true, first_ + 1};
    for (; b.end < small_.size() && b.all.bytes + small_[b.end].bytes <= sizes_.bucket; ++b.end) {
      const Buffer& next = small_[b.end];
      b.joined = b.joined && next.in == b.all.in + b.all.bytes && next.out == b.all.out + b.all.bytes;
      b.all.bytes += next.bytes;
    }
    return b;
  }

  Buffer fill(Staging& staging) {
    const Bucket b = bucket();
    last_ = b.end;
    packed_ = !b.joined;
    if (b.joined) return b.all;
    unsigned char* const memory = staging.take(sizes_.bucket);
    unsigned char* to = memory;
    for (size_t i = first_; i < last_; to += small_[i++].bytes)
      kernels::copy(to, small_[i].in, small_[i].bytes, kernels::Stores::temporal);
    return {memory, memory, b.all.bytes};
  }

  void unpack(Staging& staging) {
    const unsigned char* from = staging.take(sizes_.bucket);
    for (size_t i = first_; i < last_; from += small_[i++].bytes)
      kernels::copy(small_[i].out, from, small_[i].bytes, kernels::Stores::temporal);
    packed_ = false;
  }

  Order one_;
  FusedSizes sizes_{};
  std::vector<Buffer> large_, small_;
  size_t at_ = 0;                // large ones before it have had their run
  size_t first_ = 0, last_ = 0;  // the small ones in the bucket
  bool packed_ = false;          // it is in the staging memory
};

CallRecord record(const BufferList& list, hktRedOp_t op) {
  CallRecord r;
  r.collective = static_cast<uint32_t>(Meeting::all_reduce_list);
  r.type = static_cast<uint32_t>(list.type);
  r.op = static_cast<uint32_t>(op);
  r.root = static_cast<uint32_t>(list.buffers);
  uint64_t hash = list.buffers;
  for (size_t i = 0; i < list.buffers; ++i) {
    r.count += list.counts[i];
    hash = mix(hash, list.counts[i]);
  }
  r.table = digest(hash);
  return r;
}

Status sum_list_reproducibly(Communicator& comm, const BufferList& list, hktRedOp_t op, const CallOptions& options) {
  return comm.staged<ReproducibleSums>(options, [&](ReproducibleSums& stages) -> Result<Order> {
    Order call = Communicator::order(Collective::all_reduce, Data{nullptr, nullptr, 0, list.type});
    HKT_TRY(comm.set_op(call, op));
    stages.begin(call, static_cast<uint32_t>(comm.rank()), static_cast<uint32_t>(comm.size()));
    for (size_t i = 0; i < list.buffers; ++i) stages.append(list.in[i], list.out[i], list.counts[i]);
    HKT_TRY(stages.ready(comm));
    call.record = record(list, op);
    return call;
  });
}

}  // namespace

Status all_reduce_list(Communicator& comm, const BufferList& list, hktRedOp_t op, const CallOptions& options) {
  if (comm.parts().determinism == HKT_DETERMINISM_R4 && sums_floats(record(list, op)))
    return sum_list_reproducibly(comm, list, op, options);
  return comm.staged<FusedList>(options, [&](FusedList& stages) -> Result<Order> {
    Order call = Communicator::order(Collective::all_reduce, Data{nullptr, nullptr, 0, list.type});
    HKT_TRY(comm.set_op(call, op));
    stages.begin(list, call, fused_sizes(comm.parts().facts.hosts));
    call.record = record(list, op);
    // What HOCKET_ALGO asks for serves runs of all sizes or none: none is this call's error.
    Order first = stages.first();
    HKT_TRY(comm.choose(first.record, first.call));
    return call;
  });
}

}  // namespace hocket
