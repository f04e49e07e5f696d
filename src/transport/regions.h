// Regions: the memory that the ranks of a communicator have registered, as far as this rank can reach it. A region has
// the same name, a small number, on all ranks; some may have none under a name. By the communicator's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/memory.h"

namespace hocket {

// Of one communicator at a time.
inline constexpr uint32_t kRegions = 64;

// Where the regions of one rank begin in this process, by name; null: not here.
using RegionBases = std::array<unsigned char*, kRegions>;

// A region of this rank's.
struct Region {
  unsigned char* base = nullptr;
  uint64_t bytes = 0;
  uint32_t name = 0;
  std::vector<uint8_t> mapped;  // by rank: that rank can reach this memory

  bool holds(const void* p, uint64_t n) const {
    const auto* at = static_cast<const unsigned char*>(p);
    return at >= base && n <= bytes && static_cast<uint64_t>(at - base) <= bytes - n;
  }
  uint64_t offset(const void* p) const { return static_cast<uint64_t>(static_cast<const unsigned char*>(p) - base); }
};

// Where a message lies that is not in its slot: two bits say whose region, 14 which one, 48 how far into it; or, in
// memory of the producer that nobody has mapped, 62 its address. 0: in the slot. Crosses between processes.
class MessagePlace {
 public:
  enum class Of : uint8_t { slot = 0, producer = 1, consumer = 2, unmapped = 3 };
  MessagePlace() = default;
  explicit MessagePlace(uint64_t bits) : bits_(bits) {}
  MessagePlace(Of of, uint32_t region, uint64_t offset)
      : bits_(static_cast<uint64_t>(of) << 62 | uint64_t{region} << 48 | offset) {}

  // No place if the address has more bits.
  static MessagePlace unmapped(const void* address) {
    const auto at = reinterpret_cast<uint64_t>(address);
    return at >> 62 == 0 ? MessagePlace(static_cast<uint64_t>(Of::unmapped) << 62 | at) : MessagePlace();
  }

  uint64_t bits() const { return bits_; }
  explicit operator bool() const { return bits_ != 0; }
  Of of() const { return static_cast<Of>(bits_ >> 62); }
  uint32_t region() const { return static_cast<uint32_t>(bits_ >> 48) & 0x3fff; }
  uint64_t offset() const { return bits_ & ((uint64_t{1} << 48) - 1); }
  // In the producer's memory, which must not change until the message has been read.
  bool stays() const { return of() == Of::producer || of() == Of::unmapped; }
  uint64_t address() const { return bits_ & ((uint64_t{1} << 62) - 1); }  // unmapped
  MessagePlace plus(uint64_t bytes) const { return MessagePlace(bits_ + bytes); }
  unsigned char* in(const RegionBases& bases) const { return bases[region() % kRegions] + offset(); }

 private:
  uint64_t bits_ = 0;
};

// How other processes of the host find memory. A value.
struct MemorySpot {
  uint64_t process = 0;  // random, one for each process; equal: the same process
  int32_t pid = 0;
  int32_t file = -1;  // descriptor in that process
  uint64_t device = 0, inode = 0, offset = 0, bytes = 0;
  uint64_t base = 0;  // where it lies in that process
};
MemorySpot spot_of(const SharedMemory& memory, uint64_t process);

class Regions {
 public:
  explicit Regions(int nranks) : peers_(static_cast<size_t>(nranks)) {}
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // This rank's region `name`, which is free. Nobody has mapped it yet.
  Region& add(uint32_t name, const SharedMemory& memory);
  // Maps a peer's. An error says why that cannot be.
  Status map(int rank, uint32_t name, const MemorySpot& spot, uint64_t my_process);
  // All that has this name.
  void remove(uint32_t name);
  // The region of this rank that holds all of [p, p + bytes), or null.
  const Region* find(const void* p, uint64_t bytes) const;
  // One of this rank's that shares a byte with [p, p + bytes), or null.
  const Region* overlapping(const void* p, uint64_t bytes) const;

  // For links. Valid as long as this.
  const RegionBases* own() const { return &own_bases_; }
  const RegionBases* of(int rank);

 private:
  struct Peer {
    RegionBases bases{};
    // What keeps them here: a mapping, or in the peer's own process, which may free it before we forget it, the pages.
    std::array<std::shared_ptr<const void>, kRegions> pages;
  };
  struct Own {
    Region region;
    SharedMemory memory;  // keeps it from being freed
  };
  Peer& peer(int rank);

  std::vector<std::unique_ptr<Own>> own_;
  RegionBases own_bases_{};
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, made when needed
};

}  // namespace hocket
