// Segment: the memory that the ranks of one host share for one communicator, mapped once per process.
//
// In memory: [Header][RankBlock per rank][rings]. All places follow from (ranks, tags, geometry) by formula: nothing is
// allocated inside, so no rank waits for another one to find a ring. The mapping is large and sparse; what nobody uses
// costs address space alone.
//
// The memory has no name (memfd, or O_TMPFILE in /dev/shm): when the last process is gone, however it went, so is the
// memory.
//
// Who is alive: each process holds a POSIX record lock on byte r of the file for every rank r of its own. The kernel
// drops it when the process ends, by kill -9 too, and peers can look it up across PID namespaces. Two traps of these
// locks shape this file: a process does not see its own locks (ranks of one's own process are never looked up), and
// closing any descriptor of the file drops all of the process's locks (so a process has exactly one: Segments are
// shared through a registry).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/socket.h"
#include "transport/call_table.h"
#include "transport/doorbell.h"
#include "transport/fault_board.h"
#include "transport/link.h"

namespace hocket::shm {

enum class Backing : uint8_t { memfd, devshm };

// The ranks of one host and one communicator, equal on all of them but for my_rank, process_token and log.
struct GroupConfig {
  std::vector<int> ranks;        // global ranks, ascending; ranks[0] leads
  int my_rank = 0;               // one of them
  uint64_t nonce = 0;            // random, secret to the job's user, another one for each communicator
  uint64_t process_token = 0;    // random, made once per process, not 0: equal tokens mean one process
  std::vector<uint64_t> tokens;  // process token of each rank, by index in `ranks`
  RingGeometry geometry;
  uint16_t tags = 1;  // links per ordered pair of ranks
  Backing backing = Backing::memfd;
  const char* devshm_dir = "/dev/shm";  // for Backing::devshm; a tmpfs
  Fence fence = Fence::full;
  LogId log;

  int index_of(int rank) const;  // in `ranks`, -1 if it is not there
  int my_index() const { return index_of(my_rank); }
};

Status check(const GroupConfig& config);

// One rank's share of the control area.
struct RankBlock {
  static constexpr uint32_t kAbsent = 0, kPresent = 1, kLeft = 2;

  Doorbell bell;
  alignas(64) std::atomic<uint32_t> state{
      kAbsent};                 // kPresent once it holds its lock, kLeft before it drops it in good order
  std::atomic<int32_t> pid{0};  // as the rank itself sees it
  alignas(64) CallTable calls;
};

struct Header {
  static constexpr uint64_t kMagic = 0x31'4d'48'53'54'4b'48'00;  // "\0HKTSHM1" in memory
  static constexpr uint32_t kVersion = 1;

  uint64_t magic = 0;
  uint64_t nonce = 0;
  uint64_t bytes = 0;
  uint32_t version = 0;
  uint32_t ranks = 0;
  uint32_t tags = 0;
  RingGeometry geometry;
  FaultBoard faults;
};

// Where things are. A value.
class Layout {
 public:
  Layout(uint32_t ranks, uint32_t tags, const RingGeometry& geometry);
  uint64_t block(int index) const { return blocks_ + static_cast<uint64_t>(index) * sizeof(RankBlock); }
  // The ring of link (from -> to, tag), from != to, as indices in the group.
  uint64_t ring(int from, int to, uint16_t tag) const;
  uint64_t ring_bytes() const { return pitch_; }     // whole pages
  uint64_t control_bytes() const { return rings_; }  // everything before the first ring, whole pages
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t ranks_, tags_, blocks_, rings_, pitch_, bytes_;
};

class Segment {
 public:
  enum class Presence : uint8_t { absent, present, left, dead };

  // Fresh memory with an initialised control area. The error of a /dev/shm that is full, read-only or absent says so
  // and what to do about it.
  static Result<std::shared_ptr<Segment>> create(const GroupConfig& config);
  // Maps what another process has created; an error if it is not what `config` describes.
  static Result<std::shared_ptr<Segment>> map(Fd fd, const GroupConfig& config);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int fd() const { return fd_.get(); }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  RankBlock& block(int index) const { return *reinterpret_cast<RankBlock*>(base_ + layout_.block(index)); }
  int ranks() const { return ranks_; }

  // Rank `index` lives in this process from now on (until leave, or the end of the Segment or of the process). Any
  // thread.
  Status join(int index);
  void leave(int index);
  // About a rank of another process; of a rank of this one it says whether it has joined or left. Two system calls at
  // most.
  Presence presence(int index) const;

  // The memory of a link's ring, reserved: a later store never finds the file system full.
  Result<unsigned char*> ring(int from, int to, uint16_t tag);

  // Wakes every rank of the group that sleeps.
  void ring_all();

 private:
  Segment(Fd fd, const GroupConfig& config, const Layout& layout);
  Status map_memory();
  bool own(int index) const { return own_[static_cast<size_t>(index)].load(std::memory_order_acquire); }

  Fd fd_;
  const Layout layout_;
  const int ranks_;
  const Backing backing_;
  const int creator_pid_;  // of this object: a forked child must not act for its parent
  unsigned char* base_ = nullptr;
  std::vector<std::atomic<bool>> own_;  // by index: joined by this process and not left
};

}  // namespace hocket::shm
