// All-reduce with one message: every rank writes its whole input into a slot of its own, waits for the slots of the
// others and adds them up. Up to 56 bytes the data travel in the cache line of the sequence number, so that for two
// ranks this is the exchange of one line plus a copy: the floor of every small all-reduce.
#include <cstring>

#include "kernels.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kInline = 56;
constexpr size_t kMostBytes = size_t{64} << 10;

struct alignas(128) Slot {
  std::atomic<uint32_t> sequence;
  uint32_t unused;
  float few[kInline / sizeof(float)];
  alignas(kLine) float many[kMostBytes / sizeof(float)];
};

struct alignas(128) SmallSlot {
  std::atomic<uint32_t> sequence;
  uint32_t unused;
  float few[kInline / sizeof(float)];
};

// Slots are used in turn. Two are enough: who fills slot k again has seen every rank's message k + 1, and a rank sends
// that after it has read the messages k.
template <class SlotType>
class Messages : public Scheme {
 public:
  Messages(Team& team, const char* name, uint32_t depth, size_t least, size_t most)
      : Scheme(name + std::to_string(depth), least, most),
        team_(team),
        depth_(depth),
        slots_(team.take<SlotType>(depth * static_cast<size_t>(team.ranks))) {}

 protected:
  SlotType& slot(int rank) { return slots_[static_cast<size_t>(rank) * depth_ + sequence_ % depth_]; }
  const SlotType& arrived(int rank) {
    SlotType& theirs = slot(rank);
    wait_for(theirs.sequence, sequence_, team_.crowded);
    return theirs;
  }

  Team& team_;
  const uint32_t depth_;
  uint32_t sequence_ = 0;

 private:
  SlotType* slots_;
};

// 8 bytes and two ranks: nothing but the exchange.
class PairLine : public Messages<SmallSlot> {
 public:
  PairLine(Team& team, uint32_t depth) : Messages(team, "one line of 8 bytes, slots ", depth, 8, 8) {}

  bool run(const float* in, float* out, size_t) override {
    sequence_++;
    SmallSlot& mine = slot(team_.rank);
    std::memcpy(mine.few, in, 8);
    mine.sequence.store(sequence_, std::memory_order_release);
    const SmallSlot& theirs = arrived(1 - team_.rank);
    out[0] = in[0] + theirs.few[0];
    out[1] = in[1] + theirs.few[1];
    return true;
  }
};

class InlineMessage : public Messages<SmallSlot> {
 public:
  InlineMessage(Team& team, uint32_t depth) : Messages(team, "one line, slots ", depth, 4, kInline) {}

  bool run(const float* in, float* out, size_t count) override {
    sequence_++;
    SmallSlot& mine = slot(team_.rank);
    for (size_t i = 0; i < count; i++) mine.few[i] = out[i] = in[i];
    mine.sequence.store(sequence_, std::memory_order_release);
    for (int peer = 0; peer < team_.ranks; peer++) {
      if (peer == team_.rank) continue;
      const SmallSlot& theirs = arrived(peer);
      for (size_t i = 0; i < count; i++) out[i] += theirs.few[i];
    }
    return true;
  }
};

class LongMessage : public Messages<Slot> {
 public:
  explicit LongMessage(Team& team, uint32_t depth) : Messages(team, "one message, slots ", depth, 60, kMostBytes) {}

  bool run(const float* in, float* out, size_t count) override {
    sequence_++;
    Slot& mine = slot(team_.rank);
    std::memcpy(mine.many, in, count * sizeof(float));
    mine.sequence.store(sequence_, std::memory_order_release);
    if (team_.ranks == 2) {
      kernels().add[kCached](out, in, arrived(1 - team_.rank).many, count);
      return true;
    }
    const float* operands[64];
    for (int peer = 0; peer < team_.ranks; peer++) operands[peer] = peer == team_.rank ? in : arrived(peer).many;
    kernels().sum[kCached](out, operands, team_.ranks, count);
    return true;
  }
};

}  // namespace

void add_message_schemes(Team& team, Schemes& all) {
  if (team.ranks < 2) return;
  for (const uint32_t depth : {2u, 8u}) {
    if (team.ranks == 2) all.push_back(std::make_unique<PairLine>(team, depth));
    all.push_back(std::make_unique<InlineMessage>(team, depth));
    all.push_back(std::make_unique<LongMessage>(team, depth));
  }
}

}  // namespace floors
