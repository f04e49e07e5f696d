// Segment: the memory that the ranks of one host share for one communicator: a range of a File (which says how the
// memory is had and who is alive), mapped once per process.
//
// In memory: [Header][RankBlock per rank][rings]. All places follow from (ranks, tags, geometry) by formula: nothing is
// allocated inside, so no rank waits for another one to find a ring. The mapping is large and sparse; what nobody uses
// costs address space alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "transport/call_table.h"
#include "transport/doorbell.h"
#include "transport/fault_board.h"
#include "transport/link.h"
#include "transport/shm/file.h"

namespace hocket::shm {

// Of links that carry little and seldom: 8 KiB a ring.
inline constexpr RingGeometry kSmallRing{8, 768, 4};

// The ranks of one host and one communicator, equal on all of them but for my_rank, process_token and log.
struct GroupConfig {
  std::vector<int> ranks;          // global ranks, ascending; ranks[0] leads
  int my_rank = 0;                 // one of them
  uint64_t nonce = 0;              // random, secret to the job's user, another one for each communicator
  uint64_t process_token = 0;      // random, made once per process, not 0: equal tokens mean one process
  std::vector<uint64_t> tokens;    // process token of each rank, by index in `ranks`
  std::vector<int> seats;          // place of each rank in the File, by index in `ranks`; empty: the index itself
  std::vector<int32_t> processes;  // of each rank, by index in `ranks`, as Link::Setup has them; empty: unreadable
  RingGeometry geometry;
  uint16_t tags = 1;        // links per ordered pair of ranks
  uint16_t small_tags = 0;  // of these, the last so many have rings of kSmallRing
  Backing backing = Backing::memfd;
  const char* devshm_dir = "/dev/shm";  // for Backing::devshm; a tmpfs
  Fence fence = Fence::full;
  LogId log;

  int index_of(int rank) const;  // in `ranks`, -1 if it is not there
  int my_index() const { return index_of(my_rank); }
  int seat_of(int index) const { return seats.empty() ? index : seats[static_cast<size_t>(index)]; }
  const RingGeometry& geometry_of(uint16_t tag) const { return tag + small_tags < tags ? geometry : kSmallRing; }
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
  static constexpr uint32_t kVersion = 2;

  uint64_t magic = 0;
  uint64_t nonce = 0;
  uint64_t bytes = 0;
  uint32_t version = 0;
  uint32_t ranks = 0;
  uint32_t tags = 0;
  uint32_t small_tags = 0;
  RingGeometry geometry;
  std::atomic<uint32_t> gone{0};  // ranks that will never touch this memory again
  FaultBoard faults;
};

// Where things are. A value.
class Layout {
 public:
  explicit Layout(const GroupConfig& config);
  uint64_t block(int index) const { return blocks_ + static_cast<uint64_t>(index) * sizeof(RankBlock); }
  // The ring of link (from -> to, tag), from != to, as indices in the group.
  uint64_t ring(int from, int to, uint16_t tag) const;
  uint64_t ring_bytes(uint16_t tag) const { return tag < large_ ? pitch_ : small_pitch_; }  // whole pages
  uint64_t control_bytes() const { return rings_; }  // everything before the first ring, whole pages
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t ranks_, large_, blocks_, rings_, pitch_, small_pitch_, pair_, bytes_;
};

class Segment {
 public:
  enum class Presence : uint8_t { absent, present, left, dead };

  // Fresh memory with an initialised control area: in a new File, or in a range taken from one. A range of a new File
  // in /dev/shm is reserved as a whole, any other ring by ring.
  static Result<std::shared_ptr<Segment>> create(const GroupConfig& config);
  static Result<std::shared_ptr<Segment>> create(std::shared_ptr<File> file, const GroupConfig& config);
  // Maps what another process has created; an error if it is not what `config` describes.
  static Result<std::shared_ptr<Segment>> map(Fd fd, const GroupConfig& config);
  static Result<std::shared_ptr<Segment>> map(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::shared_ptr<File>& file() const { return file_; }
  uint64_t offset() const { return offset_; }  // in the file
  int fd() const { return file_->fd(); }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  RankBlock& block(int index) const { return *reinterpret_cast<RankBlock*>(base_ + layout_.block(index)); }
  int ranks() const { return ranks_; }

  // Rank `index` lives in this process from now on (until leave, or the end of the Segment or of the process). Any
  // thread. When the last rank has left, the memory goes back to the system; a rank that ended without leaving keeps it
  // until the last process closes the file.
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
  Segment(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config);
  // Maps the range and initialises its control area.
  static Result<std::shared_ptr<Segment>> fill(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config);
  Status map_memory();
  bool own(int index) const { return own_[static_cast<size_t>(index)].load(std::memory_order_acquire); }

  const std::shared_ptr<File> file_;
  const uint64_t offset_;
  const Layout layout_;
  const int ranks_;
  const std::vector<int> seats_;  // by index
  const bool reserved_;           // all of it, when the file was made
  const int creator_pid_;         // of this object: a forked child must not act for its parent
  unsigned char* base_ = nullptr;
  std::vector<std::atomic<bool>> own_;  // by index: joined by this process and not left
};

}  // namespace hocket::shm
