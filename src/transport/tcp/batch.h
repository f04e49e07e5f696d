// Batch: what one socket is about to send: small things copied behind one another, and pieces of memory that stay where
// they are. It stays as it is until its last byte is in the kernel. Not thread-safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace hocket::tcp {

class Batch {
 public:
  // Of at most `room` bytes that are copied.
  explicit Batch(size_t room) : staging_(room) {}

  // Nothing is left to be sent.
  bool sent() const { return piece_ == pieces_; }
  // Begins a new one; the old one is sent.
  void clear();
  // Room for `bytes` that are copied and one piece that is not.
  bool fits(size_t bytes) const {
    return pieces_ + 2 <= kPieces && staged_ + bytes <= staging_.size() && bytes_ < kMost;
  }
  // Copies `n` bytes behind the others.
  void stage(const void* bytes, size_t n);
  // `n` bytes that stay where they are. `home`: if they are lent, their place in a slot; else null.
  void refer(const void* bytes, size_t n, unsigned char* home);
  // What is lent and has not left is copied to its place in a slot, and sent from there.
  void reclaim();
  // As much as the socket takes, true if anything; an error: the connection is gone (hktRemoteError), or memory cannot
  // be read.
  Result<bool> send(int fd);

  uint32_t messages = 0;  // messages, and parts of one that are not its last, that it ends

 private:
  static constexpr size_t kPieces = 16;       // of one sendmsg
  static constexpr uint64_t kMost = 1 << 30;  // bytes beyond which nothing is added: one call moves < 2 GiB
  struct Home {
    unsigned char* at = nullptr;  // where the bytes of a lent piece, all n of them, have their place; null for others
    size_t n = 0;
  };

  std::vector<unsigned char> staging_;
  size_t staged_ = 0;
  uint64_t bytes_ = 0;
  size_t piece_ = 0, pieces_ = 0;  // sent, made
  std::array<iovec, kPieces> list_{};
  std::array<Home, kPieces> homes_{};
};

}  // namespace hocket::tcp
