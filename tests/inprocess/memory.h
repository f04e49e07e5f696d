// Memory of tests that peers can map, and which of it they may: ranks are threads, failures are gtest failures.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "comm/registered.h"
#include "inprocess/calls.h"
#include "transport/memory.h"

namespace hocket::test {

inline constexpr uint64_t kRoom = 2 << 20;

// A rank's buffers, registered where `registers` says so. To be made by all ranks.
class Arena {
 public:
  Arena(Communicator& comm, bool registers_in, bool registers_out, uint64_t bytes = kRoom) : comm_(comm) {
    for (const auto& [memory, registration, registers] :
         {std::tuple(&in, &in_, registers_in), std::tuple(&out, &out_, registers_out)}) {
      Result<void*> made = allocate_shared(bytes);
      if (!made.ok()) {
        ADD_FAILURE() << made.error().text;
        return;
      }
      *memory = static_cast<unsigned char*>(*made);
      Result<Registration> added = register_memory(comm, registers ? *memory : nullptr, registers ? bytes : 0);
      EXPECT_TRUE(added.ok()) << added.error().text;
      if (added.ok()) *registration = *added;
    }
  }
  ~Arena() {
    for (const auto& [memory, registration] : {std::pair(in, in_), std::pair(out, out_)}) {
      good(deregister_memory(comm_, registration));
      good(free_shared(memory));
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  unsigned char* in = nullptr;
  unsigned char* out = nullptr;

 private:
  Communicator& comm_;
  Registration in_ = 0, out_ = 0;
};

// Which ranks register their buffers: HOCKET_TEST_MEMORY is "registered", "even ranks" or nothing, which is none.
enum class Registers : uint8_t { none, all, even };
inline Registers registers() {
  const char* const given = std::getenv("HOCKET_TEST_MEMORY");
  const std::string memory = given != nullptr ? given : "";
  EXPECT_TRUE(memory.empty() || memory == "registered" || memory == "even ranks") << "HOCKET_TEST_MEMORY=" << memory;
  return memory.empty() ? Registers::none : memory == "registered" ? Registers::all : Registers::even;
}
inline bool registers(Registers who, int rank) {
  return who == Registers::all || (who == Registers::even && rank % 2 == 0);
}

// A piece of memory that peers can map, for buffers that come and go. By one thread.
class Pool {
 public:
  using Piece = std::shared_ptr<unsigned char>;
  explicit Pool(uint64_t bytes) : bytes_(bytes) {
    Result<void*> made = allocate_shared(bytes);
    if (made.ok())
      base_ = static_cast<unsigned char*>(*made);
    else
      ADD_FAILURE() << made.error().text;
  }
  // Pieces must have gone, and no registration be left.
  ~Pool() {
    EXPECT_TRUE(used_.empty());
    if (base_ != nullptr) good(free_shared(base_));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  // The first place that is free; null if there is none.
  Piece take(uint64_t bytes) {
    const uint64_t size = std::max<uint64_t>(bytes + 63, 64) / 64 * 64;
    uint64_t at = 0;
    for (const auto& [begin, end] : used_) {
      if (begin - at >= size) break;
      at = end;
    }
    if (base_ == nullptr || size > bytes_ - at) return nullptr;
    used_[at] = at + size;
    return {base_ + at, [this, at](unsigned char*) { used_.erase(at); }};
  }

 private:
  const uint64_t bytes_;
  unsigned char* base_ = nullptr;
  std::map<uint64_t, uint64_t> used_;  // where pieces begin and end
};

}  // namespace hocket::test
