// Jobs whose /dev/shm is full, or becomes so: an error that says it, or another way with a line in the log; never a
// signal, and what is there already goes on. In a mount namespace of the test's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "hocket/hocket.h"
#include "multiprocess/meeting_place.h"

namespace hocket::test {
namespace {

constexpr size_t kCount = 100'000;

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return good;
}

// This process sees a /dev/shm of its own from now on.
bool mount_shm(const std::string& size) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNS) != 0) {  // not root: root of a user namespace may
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (!write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") ||
        !write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"))
      return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("shm", "/dev/shm", "tmpfs", 0, ("size=" + size).c_str()) == 0;
}

// Takes what is left of /dev/shm.
void fill_shm() {
  const int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  off_t at = 0;
  for (off_t piece = 1 << 20; piece >= 4096; piece /= 2)
    while (fallocate(fd, 0, at, piece) == 0) at += piece;
  ASSERT_GT(at, 0);  // the file stays open and keeps it
}

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

constexpr int kCannotMount = 77;

// Runs body(rank, url) in n processes with a /dev/shm of `size` of their own. All end by themselves, without failures.
// False: such a file system cannot be mounted here.
bool run_job(int n, const std::string& size, const std::function<void(int, const std::string&)>& body) {
  const MeetingPlace place;
  EXPECT_TRUE(place.ok());
  std::fflush(stdout);
  const pid_t host = fork();
  if (host == 0) {
    if (!mount_shm(size)) _exit(kCannotMount);
    std::vector<pid_t> pids;
    for (int rank = 0; rank < n; ++rank) {
      pids.push_back(fork());
      if (pids.back() != 0) continue;
      alarm(60);  // whatever happens, no process is left
      setenv("HOCKET_SHM", "devshm", 1);
      body(rank, place.url(rank, n));
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    for (int rank = 0; rank < n; ++rank) EXPECT_EQ(status_of(pids[static_cast<size_t>(rank)]), 0) << "rank " << rank;
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  const int status = status_of(host);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) return false;
  EXPECT_EQ(status, 0);
  return true;
}

hktResult_t come_up(hktComm_t* comm, const char* transport, const std::string& url) {
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = transport;
  config.timeout_ms = 20'000;
  return hktCommInitUrl(comm, url.c_str(), &config);
}

// Every collective that has other links than the ones before, on buffers of the caller's.
void expect_sums(hktComm_t comm, int n, float* in, float* out) {
  std::fill_n(in, kCount, 1.0f);
  ASSERT_EQ(hktAllReduce(in, out, kCount, hktFloat32, hktSum, comm, nullptr), hktSuccess) << hktGetLastError();
  ASSERT_EQ(out[kCount - 1], static_cast<float>(n));
  for (int root = 0; root < n; ++root)
    ASSERT_EQ(hktBroadcast(in, out, kCount, hktFloat32, root, comm, nullptr), hktSuccess) << hktGetLastError();
  ASSERT_EQ(hktAllToAll(in, out, kCount / 4, hktFloat32, comm, nullptr), hktSuccess) << hktGetLastError();
  ASSERT_EQ(out[kCount / 4], 1.0f);
}
void expect_sums(hktComm_t comm, int n) {
  std::vector<float> in(kCount), out(kCount);
  expect_sums(comm, n, in.data(), out.data());
}

const char* const kMissing = "a file system cannot be mounted here";

TEST(FullSharedMemory, IsAnErrorOfAllRanksThatSaysSo) {
  if (!run_job(3, "1m", [](int, const std::string& url) {
        hktComm_t comm = nullptr;
        ASSERT_NE(come_up(&comm, "shm", url), hktSuccess);
        const std::string text = hktGetLastError();
        for (const char* part : {"/dev/shm", "MiB free", "HOCKET_SHM=memfd"})
          EXPECT_NE(text.find(part), std::string::npos) << text;
      }))
    GTEST_SKIP() << kMissing;
}

TEST(FullSharedMemory, LeavesTcpWithALineInTheLog) {
  if (!run_job(3, "1m", [](int rank, const std::string& url) {
        const std::string log = "/dev/shm/log." + std::to_string(rank);
        setenv("HOCKET_DEBUG_FILE", log.c_str(), 1);
        hktComm_t comm = nullptr;
        ASSERT_EQ(come_up(&comm, "auto", url), hktSuccess) << hktGetLastError();
        expect_sums(comm, 3);
        EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
        std::string line(4096, '\0');
        std::FILE* const f = std::fopen(log.c_str(), "re");
        if (rank == 0) {
          ASSERT_NE(f, nullptr) << "no log";
          line.resize(std::fread(line.data(), 1, line.size(), f));
          EXPECT_NE(line.find("/dev/shm has"), std::string::npos) << line;
          EXPECT_NE(line.find("TCP"), std::string::npos) << line;
        }
        if (f != nullptr) std::fclose(f);
      }))
    GTEST_SKIP() << kMissing;
}

// What a communicator may touch is reserved when it is made.
TEST(FullSharedMemory, ThatBecomesFullDoesNotDisturbACommunicator) {
  if (!run_job(3, "256m", [](int rank, const std::string& url) {
        hktComm_t comm = nullptr;
        ASSERT_EQ(come_up(&comm, "shm", url), hktSuccess) << hktGetLastError();
        if (rank == 0) fill_shm();
        ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
        expect_sums(comm, 3);
        // Nothing is left for another one, which all ranks are told; this one goes on.
        hktComm_t twin = nullptr;
        ASSERT_NE(hktCommDup(comm, &twin, nullptr), hktSuccess);
        EXPECT_NE(std::string(hktGetLastError()).find("No space left"), std::string::npos) << hktGetLastError();
        expect_sums(comm, 3);
        EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
      }))
    GTEST_SKIP() << kMissing;
}

// There is room for a communicator made from another one, but not for all of its links: the call that needs one fails,
// on all ranks, and with it that communicator alone.
TEST(FullSharedMemory, ALinkThatFindsNoRoomIsAnErrorOfAllRanks) {
  if (!run_job(2, "256m", [](int rank, const std::string& url) {
        hktComm_t comm = nullptr, twin = nullptr;
        ASSERT_EQ(come_up(&comm, "shm", url), hktSuccess) << hktGetLastError();
        ASSERT_EQ(hktCommDup(comm, &twin, nullptr), hktSuccess) << hktGetLastError();
        if (rank == 0) fill_shm();
        ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
        std::vector<float> x(kCount, 1.0f);
        hktResult_t r = hktSuccess;
        for (int i = 0; i < 3 && r == hktSuccess; ++i)
          r = hktAllReduce(x.data(), x.data(), kCount, hktFloat32, hktMax, twin, nullptr);
        ASSERT_NE(r, hktSuccess);
        EXPECT_NE(std::string(hktGetLastError()).find("No space left"), std::string::npos) << hktGetLastError();
        expect_sums(comm, 2);
        (void)hktCommDestroy(twin);
        EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
      }))
    GTEST_SKIP() << kMissing;
}

// A file of the program's that has holes, or ends before its mapping does, would be a SIGBUS of whichever rank touches
// it first.
TEST(FullSharedMemory, AFileOfTheProgramMustBeThereToBeRegistered) {
  constexpr size_t kBytes = kCount * sizeof(float);
  if (!run_job(2, "256m", [](int rank, const std::string& url) {
        hktComm_t comm = nullptr;
        ASSERT_EQ(come_up(&comm, "shm", url), hktSuccess) << hktGetLastError();
        const int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
        const auto register_file = [&](off_t length) {
          EXPECT_EQ(ftruncate(fd, length), 0);
          void* const p = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
          hktRegistration_t registration = nullptr;
          EXPECT_NE(p, MAP_FAILED);
          const hktResult_t r = hktCommRegister(comm, p, 2 * kBytes, &registration);
          if (r == hktSuccess) {
            auto* const in = static_cast<float*>(p);
            expect_sums(comm, 2, in, in + kCount);
            EXPECT_EQ(hktCommDeregister(comm, registration), hktSuccess) << hktGetLastError();
          }
          munmap(p, 2 * kBytes);
          return r;
        };
        EXPECT_EQ(register_file(2 * kBytes), hktSuccess) << hktGetLastError();
        EXPECT_NE(register_file(kBytes), hktSuccess);
        EXPECT_NE(std::string(hktGetLastError()).find("ends"), std::string::npos) << hktGetLastError();
        EXPECT_EQ(ftruncate(fd, 0), 0);
        ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess);
        if (rank == 0) fill_shm();
        ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess);
        EXPECT_NE(register_file(2 * kBytes), hktSuccess);
        EXPECT_NE(std::string(hktGetLastError()).find("No space left"), std::string::npos) << hktGetLastError();
        expect_sums(comm, 2);
        EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
      }))
    GTEST_SKIP() << kMissing;
}

}  // namespace
}  // namespace hocket::test
