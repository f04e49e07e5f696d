// File: the memory that the processes of one host share for one job: one descriptor per process, however many
// communicators live in it. A communicator's Segment is a range of it; a communicator made from another one gets a
// range of its own in the same file, so it costs no descriptor and nothing has to be handed out.
//
// In memory: [FileHeader][range of the first segment][further ranges, in the order they were taken]. Ranges are never
// reused: offsets have 63 bits, and only what is reserved takes memory. give_back() returns that.
//
// The file has no name (memfd, or O_TMPFILE in /dev/shm): when the last process is gone, however it went, so is the
// memory. It may grow and never shrinks, so memory that was reserved stays safe to touch.
//
// Who is alive: each process holds a POSIX record lock on byte s of the file for every seat s of its own; a seat is a
// rank's place among the ranks that share the file. The kernel drops it when the process ends, by kill -9 too, and
// peers can look it up across PID namespaces. Two traps of these locks shape this file: a process does not see its own
// locks (seats of one's own process are never looked up), and closing any descriptor of the file drops all of the
// process's locks (so a process has exactly one: segments share the File). Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "base/socket.h"
#include "base/thread_annotations.h"

namespace hocket::shm {

enum class Backing : uint8_t { memfd, devshm };

struct FileSpec {
  Backing backing = Backing::memfd;
  const char* devshm_dir = "/dev/shm";  // for Backing::devshm; a tmpfs
  uint64_t nonce = 0;                   // of the job
  uint64_t bytes = 0;                   // of the first range
  size_t ranks = 0;                     // for messages
};

class File {
 public:
  // Ranges begin at multiples of it: every page size of Linux divides it.
  static constexpr uint64_t kAlign = 64 * 1024;
  static constexpr uint64_t kFirst = kAlign;  // where the first range begins

  // In /dev/shm the first range is reserved as a whole, because the file system may be small and the error must come
  // while there is another transport to use. The error says what is wrong there and what to do about it.
  static Result<std::shared_ptr<File>> create(const FileSpec& spec);
  // What another process has created.
  static Result<std::shared_ptr<File>> open(Fd fd, Backing backing, uint64_t nonce);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_.get(); }
  Backing backing() const { return backing_; }

  // A fresh range of `bytes`, of which nothing is reserved yet: its offset. Atomic among all processes.
  uint64_t take(uint64_t bytes);
  // Makes [offset, offset + bytes) safe to touch: a later store never finds the file system full.
  Status reserve(uint64_t offset, uint64_t bytes);
  // Nobody will touch this range again: its memory goes back to the system.
  void give_back(uint64_t offset, uint64_t bytes);
  // Maps a range, which may lie beyond what is reserved. The caller unmaps it.
  Result<unsigned char*> map(uint64_t offset, uint64_t bytes) const;
  uint64_t size() const;

  // A rank in `seat` lives in this process, in one communicator more (one less). An error: another process has it.
  Status hold(int seat) HKT_EXCLUDES(mutex_);
  void release(int seat) HKT_EXCLUDES(mutex_);
  // Does any process hold this seat? False about seats of one's own process.
  bool held(int seat) const;

 private:
  struct Header;
  File(Fd fd, Backing backing) : fd_(std::move(fd)), backing_(backing) {}

  const Fd fd_;
  const Backing backing_;
  Header* header_ = nullptr;
  Mutex mutex_;
  std::map<int, int> seats_ HKT_GUARDED_BY(mutex_);  // held by this process: by how many communicators
};

}  // namespace hocket::shm
