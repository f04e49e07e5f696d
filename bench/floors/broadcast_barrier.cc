// Broadcast from rank 0 through slots that all other ranks read, or by process_vm_readv; barriers.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "cma.h"
#include "kernels.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kSlotBytes = size_t{1} << 20;
constexpr uint32_t kMessageDepth = 8;

// The root's slots; `read[r]` counts what rank r has read. The root looks at the counts only when it has run out.
struct Multicast {
  Flag filled;
  Flag read[64];
  alignas(128) std::byte slots[kSlotBytes];
};

class SlotBroadcast : public Scheme {
 public:
  SlotBroadcast(Team& team, Multicast* m, size_t slot_bytes, Store how, size_t least, size_t most)
      : Scheme("slots of " + std::to_string(slot_bytes) + " bytes" + (how == kPast ? ", past the cache" : ""), least,
               most),
        team_(team),
        m_(m),
        slot_(slot_bytes),
        depth_(static_cast<uint32_t>(std::min<size_t>(8, kSlotBytes / slot_bytes))),
        how_(how) {}

  bool run(const float*, float* out, size_t count) override {
    const size_t tile = slot_ / sizeof(float);
    if (team_.rank == 0) {
      uint32_t filled = m_->filled.value.load(std::memory_order_relaxed);
      for (size_t at = 0; at < count; at += tile) {
        if (filled - read_by_all_ >= depth_) wait_for_readers(filled + 1 - depth_);
        copy(slot(filled), out + at, std::min(tile, count - at), how_);
        m_->filled.value.store(++filled, std::memory_order_release);
      }
      return true;
    }
    std::atomic<uint32_t>& done = m_->read[team_.rank].value;
    uint32_t read = done.load(std::memory_order_relaxed);
    for (size_t at = 0; at < count; at += tile) {
      wait_for(m_->filled.value, read + 1, team_.crowded);
      copy(out + at, slot(read), std::min(tile, count - at), kCached);
      done.store(++read, std::memory_order_release);
    }
    return true;
  }

 private:
  float* slot(uint32_t number) { return reinterpret_cast<float*>(m_->slots + number % depth_ * slot_); }

  void wait_for_readers(uint32_t target) {
    uint32_t least = m_->filled.value.load(std::memory_order_relaxed);
    for (int r = 1; r < team_.ranks; r++) {
      wait_for(m_->read[r].value, target, team_.crowded);
      least = std::min(least, m_->read[r].value.load(std::memory_order_acquire));
    }
    read_by_all_ = least;
  }

  Team& team_;
  Multicast* m_;
  size_t slot_;
  uint32_t depth_;
  Store how_;
  uint32_t read_by_all_ = 0;
};

// A message behind its sequence number: up to 56 bytes travel in that very line, longer ones in the lines after it.
constexpr size_t kMessageBytes = 4 * kKiB - 8;
struct alignas(128) Message {
  std::atomic<uint32_t> sequence;
  uint32_t unused;
  float data[kMessageBytes / sizeof(float)];
};

class MessageBroadcast : public Scheme {
 public:
  explicit MessageBroadcast(Team& team)
      : Scheme("one message", 4, kMessageBytes),
        team_(team),
        messages_(team.take<Message>(kMessageDepth)),
        read_(team.take<Flag>(static_cast<size_t>(team.ranks))) {}

  bool run(const float*, float* out, size_t count) override {
    Message& message = messages_[++sequence_ % kMessageDepth];
    if (team_.rank == 0) {
      if (sequence_ - read_by_all_ > kMessageDepth) wait_for_readers();
      carry(message.data, out, count);
      message.sequence.store(sequence_, std::memory_order_release);
      return true;
    }
    wait_for(message.sequence, sequence_, team_.crowded);
    carry(out, message.data, count);
    if (sequence_ % (kMessageDepth / 2) == 0) read_[team_.rank].value.store(sequence_, std::memory_order_release);
    return true;
  }

 private:
  static void carry(float* to, const float* from, size_t count) {
    if (count > 14) {
      std::memcpy(to, from, count * sizeof(float));
    } else {
      for (size_t i = 0; i < count; i++) to[i] = from[i];
    }
  }

  void wait_for_readers() {
    read_by_all_ = sequence_;
    for (int r = 1; r < team_.ranks; r++) {
      wait_for(read_[r].value, sequence_ - kMessageDepth, team_.crowded);
      read_by_all_ = std::min(read_by_all_, read_[r].value.load(std::memory_order_acquire));
    }
  }

  Team& team_;
  Message* messages_;
  Flag* read_;
  uint32_t sequence_ = 0;
  uint32_t read_by_all_ = 0;
};

struct alignas(128) Source {
  std::atomic<uint32_t> call;
  pid_t pid;
  const float* data;
};

class CmaBroadcast : public Scheme {
 public:
  explicit CmaBroadcast(Team& team)
      : Scheme("process_vm_readv", 16 * kKiB, SIZE_MAX),
        team_(team),
        source_(team.take<Source>()),
        left_(team.take<Flag>(static_cast<size_t>(team.ranks))) {}

  bool run(const float*, float* out, size_t count) override {
    call_++;
    if (team_.rank == 0) {
      source_->pid = getpid();
      source_->data = out;
      source_->call.store(call_, std::memory_order_release);
      for (int r = 1; r < team_.ranks; r++) wait_for(left_[r].value, call_, team_.crowded);
      return true;
    }
    wait_for(source_->call, call_, team_.crowded);
    if (!cma_read(source_->pid, out, source_->data, count)) return false;
    left_[team_.rank].value.store(call_, std::memory_order_release);
    return true;
  }

 private:
  Team& team_;
  Source* source_;
  Flag* left_;
  uint32_t call_ = 0;
};

class MeetingBarrier : public Scheme {
 public:
  explicit MeetingBarrier(Meeting& meeting) : Scheme("a flag for each rank", 0, 0), meeting_(meeting) {}
  bool run(const float*, float*, size_t) override {
    meeting_.meet();
    return true;
  }

 private:
  Meeting& meeting_;
};

struct Counter {
  Flag arrived;
  Flag opened;  // barriers completed
};

class CounterBarrier : public Scheme {
 public:
  CounterBarrier(Team& team, bool futex)
      : Scheme(futex ? "central counter, futex" : "central counter, sched_yield", 0, 0),
        team_(team),
        futex_(futex),
        counter_(team.take<Counter>()) {}

  bool run(const float*, float*, size_t) override {
    std::atomic<uint32_t>& opened = counter_->opened.value;
    const uint32_t before = opened.load(std::memory_order_acquire);
    const uint32_t all = static_cast<uint32_t>(team_.ranks);
    if (counter_->arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
      counter_->arrived.value.store(0, std::memory_order_relaxed);
      opened.store(before + 1, std::memory_order_release);
      if (futex_) syscall(SYS_futex, &opened, FUTEX_WAKE, team_.ranks, nullptr, nullptr, 0);
      return true;
    }
    if (!futex_) {
      wait_for(opened, before + 1, team_.crowded);
      return true;
    }
    while (opened.load(std::memory_order_acquire) == before) {
      syscall(SYS_futex, &opened, FUTEX_WAIT, before, nullptr, nullptr, 0);
    }
    return true;
  }

 private:
  Team& team_;
  bool futex_;
  Counter* counter_;
};

}  // namespace

void add_broadcast_schemes(Team& team, Schemes& all) {
  if (team.ranks < 2) return;
  Multicast* m = team.take<Multicast>();
  all.push_back(std::make_unique<MessageBroadcast>(team));
  all.push_back(std::make_unique<SlotBroadcast>(team, m, 4 * kKiB, kCached, 4, 256 * kKiB));
  for (const Store how : {kCached, kPast}) {
    for (const size_t bytes : {16 * kKiB, 64 * kKiB, 256 * kKiB}) {
      all.push_back(std::make_unique<SlotBroadcast>(team, m, bytes, how, 4 * kKiB, SIZE_MAX));
    }
  }
  if (cma_works(team)) all.push_back(std::make_unique<CmaBroadcast>(team));
}

void add_barrier_schemes(Team& team, Schemes& all, Meeting& meeting) {
  all.push_back(std::make_unique<MeetingBarrier>(meeting));
  all.push_back(std::make_unique<CounterBarrier>(team, false));
  all.push_back(std::make_unique<CounterBarrier>(team, true));
}

}  // namespace floors
