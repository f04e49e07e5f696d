// The intermediate representation: what one rank does, as steps over links and chunks. No pointer, byte or type appears
// here.
//
// A step executes
//     v = fold(pop(in[recv]), ..., pop(in[recv + nrecv - 1]) with the local operands load(src) at position `self`)
//     v = pre(local operand) before the fold (kPre), post(v) after it (kPost)
//     store(dst, v); push(v, out[send]) ... push(v, out[send + nsend - 1])
// where every part is present only if `ops` says so. Operands fold from left to right: position 0 first. The nload
// local operands, mostly one, stand one after another at position `self` among all; the popped ones keep their link
// order.
//
// Message  = one step x round x link = one slot, always sent, even when empty: counters depend on the plan alone.
// Chunk    = a name. The blocks of a step are chunks (c + j * stride) mod chunks(buffer), j < count, of src and of dst;
//            those of the o-th local operand follow on those before it: j is o * count + j there. Shape turns chunks
//            into bytes, schedule/buffers.h tells which are equally large.
// Round    = the program replayed with `in` and `out` advanced and scratch not.
// Everything here is usable from constexpr, host and device code.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define HKT_HD __host__ __device__
#else
#define HKT_HD
#endif

namespace hocket {

enum StepOp : uint8_t { kRecv = 1, kLoad = 2, kStore = 4, kSend = 8, kPre = 16, kPost = 32 };
inline constexpr uint8_t kStepOpsAll = 63;

enum class Buf : uint8_t { in = 0, out = 1, scratch = 2 };
inline constexpr uint32_t kBufs = 3;

// With n ranks, chunks of in and of out:
//   all_reduce, broadcast, reduce   c and c; broadcast: only the root has an in, reduce: only the root has an out
//   all_gather, gather              1 (the own block) and n (the block of each rank); gather: only the root has an out
//   reduce_scatter, scatter         n (the block for each rank) and 1 (the own block); scatter: only the root has an in
//   all_to_all                      n (chunk d goes to rank d) and n (chunk s came from rank s)
enum class Collective : uint8_t {
  all_reduce = 0,
  broadcast = 1,
  barrier = 2,
  reduce = 3,
  all_gather = 4,
  reduce_scatter = 5,
  all_to_all = 6,
  gather = 7,
  scatter = 8
};
inline constexpr uint32_t kCollectives = 9;

// Wait, before step i of round q of this lane, for step `step` of lane `lane` in round q - lag (a round below 0 is
// done).
struct Dep {
  uint16_t lane = 0;
  uint16_t lag = 0;
  uint32_t step = 0;
};

// The far end of a link of this rank. One link = (source, destination, tag); one tag per phase of an algorithm.
struct Peer {
  uint32_t rank = 0;
  uint16_t tag = 0;
  uint16_t spare = 0;
};
inline constexpr uint32_t kMaxTags = 4;

struct Step {
  uint8_t ops = 0, bufs = 0;  // StepOp bits; src in the low nibble, dst in the high one
  uint8_t ndep = 0, flags = 0;
  uint16_t nrecv = 0, nsend = 0, self = 0;
  uint16_t recv = 0, send = 0, nload = 0;
  uint32_t src = 0, dst = 0, count = 0, stride = 1;

  HKT_HD constexpr bool has(StepOp op) const { return (ops & op) != 0; }
  HKT_HD constexpr Buf src_buf() const { return static_cast<Buf>(bufs & 15); }
  HKT_HD constexpr Buf dst_buf() const { return static_cast<Buf>(bufs >> 4); }
  HKT_HD constexpr uint32_t operands() const { return uint32_t{nrecv} + nload; }

  // Builders, to be chained: Step{}.pop(0).load(Buf::in, c).store(Buf::out, c).push(0).
  // A range of blocks is given by load or store and lengthened by `blocks`. A step that has neither carries none.
  HKT_HD constexpr Step pop(uint32_t first, uint32_t n = 1) const {
    Step s = *this;
    s.ops |= kRecv;
    s.recv = static_cast<uint16_t>(first);
    s.nrecv = static_cast<uint16_t>(n);
    return s;
  }
  HKT_HD constexpr Step load(Buf b, uint32_t chunk, uint32_t position = 0) const {
    Step s = *this;
    s.ops |= kLoad;
    s.bufs = static_cast<uint8_t>((s.bufs & 0xf0) | static_cast<uint8_t>(b));
    s.src = chunk;
    s.self = static_cast<uint16_t>(position);
    s.nload = 1;
    if (s.count == 0) s.count = 1;
    return s;
  }
  // After load: that operand and those behind it, n in all.
  HKT_HD constexpr Step loads(uint32_t n) const {
    Step s = *this;
    s.nload = static_cast<uint16_t>(n);
    return s;
  }
  HKT_HD constexpr Step store(Buf b, uint32_t chunk) const {
    Step s = *this;
    s.ops |= kStore;
    s.bufs = static_cast<uint8_t>((s.bufs & 0x0f) | (static_cast<uint8_t>(b) << 4));
    s.dst = chunk;
    if (s.count == 0) s.count = 1;
    return s;
  }
  HKT_HD constexpr Step push(uint32_t first, uint32_t n = 1) const {
    Step s = *this;
    s.ops |= kSend;
    s.send = static_cast<uint16_t>(first);
    s.nsend = static_cast<uint16_t>(n);
    return s;
  }
  HKT_HD constexpr Step blocks(uint32_t n, uint32_t step = 1) const {
    Step s = *this;
    s.count = n;
    s.stride = step;
    return s;
  }
  HKT_HD constexpr Step pre() const {
    Step s = *this;
    s.ops |= kPre;
    return s;
  }
  HKT_HD constexpr Step post() const {
    Step s = *this;
    s.ops |= kPost;
    return s;
  }
  HKT_HD constexpr Step after(uint32_t ndeps) const {
    Step s = *this;
    s.ndep = static_cast<uint8_t>(ndeps);
    return s;
  }
  friend constexpr bool operator==(const Step&, const Step&) = default;
};
static_assert(sizeof(Step) == 32 && std::is_trivially_copyable_v<Step>);

// What a rank sends over the whole plan in one round: messages, and the blocks in them. Declared by the planner in
// closed form, checked against the steps by verify.
struct Cost {
  uint32_t messages = 0;
  uint32_t blocks = 0;
};

// A planner is a plain struct with these members, all const and constexpr, no state but its parameters:
//   static constexpr Collective collective;  static constexpr const char* name;
//   uint32_t n;                                  // number of ranks (and root etc.)
//   HKT_HD constexpr uint32_t chunks(Buf) const; // see Collective; scratch: 0 or a multiple of the size classes
//   HKT_HD constexpr uint32_t lanes(uint32_t rank) const;
//   HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t lane) const;
//   HKT_HD constexpr Step step(uint32_t rank, uint32_t lane, uint32_t i) const;
//   HKT_HD constexpr Dep dep(uint32_t rank, uint32_t lane, uint32_t i, uint32_t d) const;
//   HKT_HD constexpr uint32_t links_in(uint32_t rank) const, links_out(uint32_t rank) const;
//   HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const, out(uint32_t rank, uint32_t k) const;
//   HKT_HD constexpr Cost cost(uint32_t rank) const;
//   HKT_HD constexpr uint32_t message_blocks() const;  // the most blocks that one message of any rank carries
// The k-th message on a link is popped by the k-th pop of that link; every link is pushed by one lane and popped by one
// lane.

}  // namespace hocket
