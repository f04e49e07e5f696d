// Memory that other processes can map: what may be registered, and what is said of the rest.
#include "transport/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "transport/memory_file.h"

namespace hocket {
namespace {

class Mapped {
 public:
  Mapped(int fd, uint64_t bytes, int protection, int flags, uint64_t offset = 0) : bytes_(bytes) {
    p_ = mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset));
    EXPECT_NE(p_, MAP_FAILED);
  }
  ~Mapped() { munmap(p_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  unsigned char* at(uint64_t offset = 0) const { return static_cast<unsigned char*>(p_) + offset; }

 private:
  void* p_;
  uint64_t bytes_;
};

std::string refusal(void* p, uint64_t bytes) {
  const Result<SharedMemory> r = shared_memory_at(p, bytes);
  EXPECT_FALSE(r.ok());
  return r.ok() ? "" : r.error().text;
}

// Another mapping of the same file shows what was written through the first.
void expect_same_memory(unsigned char* p, const SharedMemory& m) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t lead = m.offset % page;
  const Mapped other(m.file->get(), lead + m.bytes, PROT_READ, MAP_SHARED, m.offset - lead);
  std::memset(p, 0x3c, m.bytes);
  p[m.bytes - 1] = 0x77;
  EXPECT_EQ(*other.at(lead), m.bytes == 1 ? 0x77 : 0x3c);
  EXPECT_EQ(*other.at(lead + m.bytes - 1), 0x77);
}

TEST(Memory, IsAllocatedZeroedAndPageAligned) {
  Result<void*> p = allocate_shared(100'000);
  ASSERT_TRUE(p.ok()) << p.error().text;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*p) % static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), 0u);
  auto* const bytes = static_cast<unsigned char*>(*p);
  for (uint64_t i = 0; i < 100'000; ++i) ASSERT_EQ(bytes[i], 0);
  Result<SharedMemory> whole = shared_memory_at(*p, 100'000);
  ASSERT_TRUE(whole.ok()) << whole.error().text;
  expect_same_memory(bytes, *whole);
  Result<SharedMemory> part = shared_memory_at(bytes + 5001, 7);
  ASSERT_TRUE(part.ok()) << part.error().text;
  EXPECT_EQ(part->offset, 5001u);
  EXPECT_EQ(part->inode, whole->inode);
  expect_same_memory(bytes + 5001, *part);
  EXPECT_NE(refusal(bytes + 5001, 200'000).find("were allocated"), std::string::npos);
  // In use until the last description of it has gone.
  EXPECT_EQ(free_shared(*p).error().code, hktInvalidUsage);
  *whole = SharedMemory{};
  EXPECT_EQ(free_shared(*p).error().code, hktInvalidUsage);
  *part = SharedMemory{};
  EXPECT_TRUE(free_shared(*p).ok());
  EXPECT_EQ(free_shared(*p).error().code, hktInvalidArgument);
}

TEST(Memory, RefusesSizesThatCannotBe) {
  EXPECT_EQ(allocate_shared(0).error().code, hktInvalidArgument);
  EXPECT_EQ(allocate_shared(UINT64_MAX - 100).error().code, hktInvalidArgument);
  int mine = 0;
  EXPECT_EQ(free_shared(&mine).error().code, hktInvalidArgument);
}

// Whoever still has it mapped sees it empty: the memory has gone back.
TEST(Memory, GoesBackWhenFreed) {
  Result<void*> p = allocate_shared(8192);
  ASSERT_TRUE(p.ok()) << p.error().text;
  std::memset(*p, 1, 8192);
  int fd = -1;
  {
    Result<SharedMemory> m = shared_memory_at(*p, 8192);
    ASSERT_TRUE(m.ok()) << m.error().text;
    fd = dup(m->file->get());
  }
  const Mapped other(fd, 8192, PROT_READ, MAP_SHARED);
  EXPECT_EQ(*other.at(8191), 1);
  EXPECT_TRUE(free_shared(*p).ok());
  EXPECT_EQ(*other.at(8191), 0);
  close(fd);
}

// A child's copy of the allocation is its own to unmap; the memory stays the parent's.
TEST(Memory, StaysWhenAForkedChildFreesIt) {
  Result<void*> p = allocate_shared(4096);
  ASSERT_TRUE(p.ok()) << p.error().text;
  std::memset(*p, 9, 4096);
  const pid_t child = fork();
  if (child == 0) _exit(free_shared(*p).ok() ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(static_cast<unsigned char*>(*p)[4095], 9);
  EXPECT_TRUE(free_shared(*p).ok());
}

TEST(Memory, OfAFileThatTheProgramHasMapped) {
  Result<Fd> fd = make_memfd(64 * 1024);
  ASSERT_TRUE(fd.ok()) << fd.error().text;
  const Mapped mapped(fd->get(), 32 * 1024, PROT_READ | PROT_WRITE, MAP_SHARED, 16 * 1024);
  Result<SharedMemory> m = shared_memory_at(mapped.at(100), 20'000);
  ASSERT_TRUE(m.ok()) << m.error().text;
  EXPECT_EQ(m->offset, 16u * 1024 + 100);
  expect_same_memory(mapped.at(100), *m);
  EXPECT_NE(refusal(mapped.at(), 33 * 1024).find("belong to one mapped file"), std::string::npos);
  // The description keeps a descriptor of its own.
  fd->reset();
  expect_same_memory(mapped.at(100), *m);
  *m = SharedMemory{};
  EXPECT_NE(refusal(mapped.at(), 4096).find("keep one open"), std::string::npos);
}

TEST(Memory, OfAFileWithAName) {
  std::string name = "/dev/shm/hocket_memory_test.XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "no /dev/shm that can be written";
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  const Mapped mapped(fd, 8192, PROT_READ | PROT_WRITE, MAP_SHARED);
  close(fd);
  Result<SharedMemory> m = shared_memory_at(mapped.at(), 8192);
  EXPECT_TRUE(m.ok()) << m.error().text;
  if (m.ok()) expect_same_memory(mapped.at(), *m);
  unlink(name.c_str());
}

TEST(Memory, ThatIsPrivateIsRefused) {
  std::string mine(10'000, 'x');
  EXPECT_NE(refusal(mine.data(), mine.size()).find("private to this process"), std::string::npos);
  Result<Fd> fd = make_memfd(8192);
  ASSERT_TRUE(fd.ok());
  const Mapped copy(fd->get(), 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  EXPECT_NE(refusal(copy.at(), 8192).find("private to this process"), std::string::npos);
  const Mapped readable(fd->get(), 8192, PROT_READ, MAP_SHARED);
  EXPECT_NE(refusal(readable.at(), 8192).find("readable and writable"), std::string::npos);
  EXPECT_NE(refusal(reinterpret_cast<void*>(64), 8).find("no memory at"), std::string::npos);
  EXPECT_NE(refusal(mine.data(), 0).find("0 bytes"), std::string::npos);
}

}  // namespace
}  // namespace hocket
