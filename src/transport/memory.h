// Memory that other processes of the host can map: what hktMemAlloc hands out, and files that the program itself has
// mapped. Any thread.
//
// A message of such memory need not travel in a slot (docs/protocols.md). Which stretches may be used so is said by
// registering them with a communicator; where its peers find them is the transport's business.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/socket.h"

namespace hocket {

// A stretch of a file that is mapped, shared and writable, into this process. A value; keeps the file open.
struct SharedMemory {
  unsigned char* base = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const Fd> file;
  uint64_t offset = 0;  // of `base` in the file
  uint64_t device = 0, inode = 0;
};

// Zeroed memory of `bytes` > 0, rounded up to pages, all of it there: touching it never fails. hktSystemError when
// there is none.
Result<void*> allocate_shared(uint64_t bytes);
// Of allocate_shared(). Its memory goes back to the system at once, whoever else has it mapped. hktInvalidUsage while a
// SharedMemory of it exists; hktInvalidArgument for any other pointer.
Status free_shared(void* p);
// What lies at [p, p + bytes): an allocation, or a file that the program has mapped. An error says why others cannot
// map it.
Result<SharedMemory> shared_memory_at(void* p, uint64_t bytes);

// Keeps the allocation that p lies in mapped for as long as the result lives, even if it is freed; null: there is none.
std::shared_ptr<const void> pages_at(const void* p);

// At most so many stretches are registered with one communicator by one rank.
inline constexpr uint32_t kRegions = 64;

// A stretch that this rank has registered, as the links see it.
struct Region {
  unsigned char* base = nullptr;
  uint64_t bytes = 0;
  uint32_t index = 0;           // its name among those of this rank, below kRegions
  std::vector<uint8_t> mapped;  // by the transport's index of the peer: it can reach this memory

  bool holds(const void* p, uint64_t n) const {
    const auto* at = static_cast<const unsigned char*>(p);
    return at >= base && n <= bytes && static_cast<uint64_t>(at - base) <= bytes - n;
  }
  uint64_t offset(const void* p) const { return static_cast<uint64_t>(static_cast<const unsigned char*>(p) - base); }
};

// Where the regions of one rank begin in this process, by index; null: not mapped here.
using RegionBases = std::array<unsigned char*, kRegions>;

// What a rank has registered with one communicator, for messages to peers that can map it. By the communicator's
// thread.
class Registry {
 public:
  virtual ~Registry() = default;
  // hktInvalidUsage: kRegions are registered already, or `memory` overlaps with one that is.
  virtual Result<const Region*> add(const SharedMemory& memory) = 0;
  // What add() has returned; no message of it is under way.
  virtual void remove(const Region& region) = 0;
  // The region that holds all of [p, p + bytes), or null.
  virtual const Region* find(const void* p, uint64_t bytes) const = 0;
  // At the beginning of a call: has anybody of these ranks ever registered memory? Takes note of what is new.
  virtual bool in_use() = 0;
};

// Where a message lies that is not in its slot: two bits say whose region, 14 which one, 48 how far into it. 0: in the
// slot. Crosses between processes.
class MessagePlace {
 public:
  enum class Of : uint8_t { slot = 0, producer = 1, consumer = 2 };
  MessagePlace() = default;
  explicit MessagePlace(uint64_t bits) : bits_(bits) {}
  MessagePlace(Of of, uint32_t region, uint64_t offset)
      : bits_(static_cast<uint64_t>(of) << 62 | uint64_t{region} << 48 | offset) {}

  uint64_t bits() const { return bits_; }
  explicit operator bool() const { return bits_ != 0; }
  Of of() const { return static_cast<Of>(bits_ >> 62); }
  uint32_t region() const { return static_cast<uint32_t>(bits_ >> 48) & 0x3fff; }
  uint64_t offset() const { return bits_ & ((uint64_t{1} << 48) - 1); }
  MessagePlace plus(uint64_t bytes) const { return MessagePlace(bits_ + bytes); }
  unsigned char* in(const RegionBases& bases) const { return bases[region() % kRegions] + offset(); }

 private:
  uint64_t bits_ = 0;
};

}  // namespace hocket
