#include "bootstrap/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "HKTF";
constexpr uint16_t kVersion = 1;
constexpr size_t kHeaderSize = 64;
constexpr off_t kCommittedAt = 8;
constexpr uint64_t kMaxFile = uint64_t{1} << 30;
constexpr size_t kRecordHead = 9;
constexpr size_t kMaxBody = Store::kMaxKey + Store::kMaxValue + 64;
constexpr off_t kMutexByte = off_t{1} << 61;
constexpr off_t kRankBytes = kMutexByte + 1;  // + rank

enum class Kind : uint8_t { join = 1, put = 2, fail = 3, leave = 4 };

// Errors of a job that was set up wrongly (two processes with one rank, different sizes or versions) are told to ranks
// that come a little later. Others (a death, a timeout) concern those present: a rank that comes later belongs to the
// next start of the job, which has the same file.
bool concerns_latecomers(Code code) {
  return code == hktInvalidUsage || code == hktInvalidArgument || code == hktMismatch;
}

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class FileStore final : public Store {
 public:
  FileStore(std::string path, int rank, int nranks, Deadline deadline)
      : path_(std::move(path)), rank_(rank), nranks_(nranks), deadline_(deadline) {}

  Status join();
  Status put(std::string_view key, std::string_view value) override;
  Result<Found> get(const std::vector<std::string>& keys, Deadline deadline) override;
  void fail(const Error& failure) override;
  Status leave(Deadline deadline) override;

 private:
  enum class Joined : uint8_t { yes, try_again };
  // Holds the mutex while it lives.
  class Guard {
   public:
    explicit Guard(FileStore* store) : store_(store) { store->locked_ = true; }
    Guard(Guard&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (store_ == nullptr) return;
      store_->locked_ = false;
      store_->set_lock(F_UNLCK, kMutexByte);
    }

   private:
    FileStore* store_;
  };

  Result<Joined> try_join();
  Status open_path();
  bool is_current() const;
  Status initialise();
  Result<Guard> lock(Deadline deadline);
  // How long to sleep between looks, at most: hundreds of ranks that look all the time leave no time to write.
  int pause_us(int few) const { return std::max(few, nranks_ * 20); }
  bool set_lock(short type, off_t byte);
  bool anybody_alive(off_t from, off_t count);
  bool dead(int rank) { return left_.count(rank) == 0 && rank != rank_ && !anybody_alive(kRankBytes + rank, 1); }
  std::optional<int> dead_rank();
  std::optional<int> neighbour() const;
  Status look_around();
  Status refresh();
  Status parse(std::string_view log);
  Status append(Kind kind, std::string_view body);
  Error damaged(const char* what) const {
    return error(hktInvalidUsage, "rendezvous file %s is damaged (%s): remove it and start again",
                 in_quotes(path_).c_str(), what);
  }

  const std::string path_;
  const int rank_;
  const int nranks_;
  const Deadline deadline_;
  Fd fd_;
  bool locked_ = false;         // this object holds the mutex
  bool member_ = false;         // joined and did not leave
  uint64_t end_ = kHeaderSize;  // of what is parsed
  std::unordered_map<std::string, std::string> values_;
  std::map<int, std::string> joined_;  // rank -> "host h, process p"
  size_t largest_ = 0;                 // number of ranks that any of them was told
  std::set<int> left_;
  std::optional<Error> failure_;
};

bool FileStore::set_lock(short type, off_t byte) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return fcntl(fd_.get(), F_OFD_SETLK, &range) == 0;
}

// Whether another open file description holds a lock on one of the bytes.
bool FileStore::anybody_alive(off_t from, off_t count) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = from;
  range.l_len = count;
  return fcntl(fd_.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

// Not F_OFD_SETLKW: it knows no deadline, and the holder may be a stopped process.
Result<FileStore::Guard> FileStore::lock(Deadline deadline) {
  for (int us = 50;; us = std::min(us * 2, pause_us(2000))) {
    if (set_lock(F_WRLCK, kMutexByte)) return Guard(this);
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      return sys_error("cannot lock rendezvous file %s (its file system must support fcntl locks)",
                       in_quotes(path_).c_str());
    }
    if (deadline.passed()) {
      return error(hktTimeout, "rendezvous file %s stays locked by another process: is one of its ranks stopped?",
                   in_quotes(path_).c_str());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
}

Status FileStore::open_path() {
  // No symbolic link: in a directory that others may write to, it could name any file of ours.
  fd_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) {
    const std::string what = "cannot open rendezvous file " + in_quotes(path_);
    if (errno == ENOENT) return error(hktInvalidUsage, "%s: its directory does not exist: make it", what.c_str());
    if (errno == ELOOP) return error(hktInvalidUsage, "%s: it is a symbolic link: give the file itself", what.c_str());
    return descriptor_error(what);
  }
  struct stat s {};
  if (fstat(fd_.get(), &s) != 0) return sys_error("cannot examine rendezvous file %s", in_quotes(path_).c_str());
  if (!S_ISREG(s.st_mode)) {
    return error(hktInvalidUsage, "rendezvous file %s is no regular file: choose another path",
                 in_quotes(path_).c_str());
  }
  return {};
}

// Whether the path still names the file that is open.
bool FileStore::is_current() const {
  struct stat mine {};
  struct stat there {};
  return fstat(fd_.get(), &mine) == 0 && lstat(path_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

Status FileStore::initialise() {
  wire::Writer header;
  header.raw(kMagic).u16(kVersion).u16(0).u64(kHeaderSize);
  header.u64(static_cast<uint64_t>(time(nullptr))).u64(static_cast<uint64_t>(getpid()));
  std::string bytes = header.take() + host_name().substr(0, 31);
  bytes.resize(kHeaderSize, '\0');
  if (ftruncate(fd_.get(), 0) != 0 ||
      pwrite(fd_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return sys_error("cannot write rendezvous file %s", in_quotes(path_).c_str());
  }
  return {};
}

Result<FileStore::Joined> FileStore::try_join() {
  HKT_TRY(open_path());
  HKT_ASSIGN(const Guard guard, lock(deadline_));
  // The last rank of a former job may have removed the file between the two steps.
  if (!is_current()) return Joined::try_again;

  char head[kHeaderSize] = {};
  const ssize_t n = pread(fd_.get(), head, sizeof head, 0);
  if (n < 0) return sys_error("cannot read rendezvous file %s", in_quotes(path_).c_str());
  wire::Reader in(std::string_view(head, static_cast<size_t>(n)));
  if (n != 0 && in.raw(kMagic.size()) != kMagic) {
    return error(hktInvalidUsage,
                 "file %s exists and is no rendezvous file of Hocket: remove it or choose another path",
                 in_quotes(path_).c_str());
  }
  if (n == 0 || !anybody_alive(kRankBytes, kMaxRanks)) {
    if (n != 0) {
      HKT_WARN(init, (LogId{rank_, nranks_}), "rendezvous file %s is left from a job that ended early: it is replaced",
               in_quotes(path_).c_str());
    }
    HKT_TRY(initialise());
  } else if (in.u16() != kVersion) {
    return error(hktInvalidUsage,
                 "rendezvous file %s is in use by another version of Hocket: install the same version "
                 "for all ranks",
                 in_quotes(path_).c_str());
  }

  end_ = kHeaderSize;
  values_.clear();
  joined_.clear();
  largest_ = 0;
  left_.clear();
  failure_.reset();
  HKT_TRY(refresh());
  // A rank that was here and is gone: the file is of a job that is ending, and this process of the next start.
  if (dead_rank() || (failure_ && !concerns_latecomers(failure_->code))) return Joined::try_again;
  if (anybody_alive(kRankBytes + rank_, 1)) {
    const Error clash =
        error(hktInvalidUsage,
              "two processes say they are rank %d of %d: %s, and host %s, process %d: give each its own "
              "RANK, and each job its own file (%s)",
              rank_, nranks_, joined_[rank_].c_str(), host_name().c_str(), getpid(), in_quotes(path_).c_str());
    if (!failure_) HKT_TRY(append(Kind::fail, wire::pack_error(clash)));
    return clash;
  }
  if (joined_.count(rank_) != 0) return Joined::try_again;  // it left in good order: its job is nearly done
  if (!set_lock(F_WRLCK, kRankBytes + rank_))
    return sys_error("cannot lock rendezvous file %s", in_quotes(path_).c_str());
  member_ = true;
  HKT_TRY(append(Kind::join, wire::Writer()
                                 .u32(static_cast<uint32_t>(nranks_))
                                 .bytes(format("host %s, process %d", host_name().c_str(), getpid()))
                                 .view()));
  if (failure_) return *failure_;
  return Joined::yes;
}

Status FileStore::join() {
  for (;;) {
    Result<Joined> joined = try_join();
    if (!joined) {
      (void)leave(Deadline::in_ms(0)).ok();  // one more rank that was told
      return std::move(joined.error());
    }
    if (*joined == Joined::yes) return {};
    fd_.reset();
    if (deadline_.passed()) {
      return error(hktTimeout,
                   "rendezvous file %s is in use by another job, or by processes that are left of one: end them or "
                   "choose another path",
                   in_quotes(path_).c_str());
    }
    pause_ms(20);
  }
}

// A rank that joined, did not leave and holds no lock. The caller holds the mutex and has refreshed.
std::optional<int> FileStore::dead_rank() {
  for (const auto& [rank, who] : joined_) {
    if (dead(rank)) return rank;
  }
  return std::nullopt;
}

// The next rank, cyclically, that is here. If every waiting rank watches its neighbour, each death is seen by somebody,
// for one system call per look however many ranks there are.
std::optional<int> FileStore::neighbour() const {
  std::optional<int> first;
  for (const auto& [rank, who] : joined_) {
    if (rank == rank_ || left_.count(rank) != 0) continue;
    if (rank > rank_) return rank;
    if (!first) first = rank;
  }
  return first;
}

// Now and then, with the mutex (whose locking also makes a network file system forget what it has cached).
Status FileStore::look_around() {
  if (!is_current()) {
    return error(hktSystemError, "rendezvous file %s was removed or replaced during bring-up: leave it alone",
                 in_quotes(path_).c_str());
  }
  HKT_ASSIGN(const Guard guard, lock(deadline_));
  HKT_TRY(refresh());
  const std::optional<int> rank = neighbour();
  if (failure_ || !rank || !dead(*rank)) return {};
  return append(Kind::fail, wire::pack_error(error(hktRemoteError, "rank %d of %d (%s) died or left during bring-up",
                                                   *rank, nranks_, joined_[*rank].c_str())));
}

// Parses what has been committed since the last time.
Status FileStore::refresh() {
  char bytes[8];
  if (pread(fd_.get(), bytes, sizeof bytes, kCommittedAt) != sizeof bytes) return damaged("it has no header");
  const uint64_t committed = wire::Reader(std::string_view(bytes, sizeof bytes)).u64();
  struct stat s {};
  if (fstat(fd_.get(), &s) != 0) return sys_error("cannot examine rendezvous file %s", in_quotes(path_).c_str());
  if (committed < end_ || committed > kMaxFile || committed > static_cast<uint64_t>(s.st_size)) {
    // Without the mutex a network file system may show a header that is newer than the rest.
    return locked_ ? damaged("its size does not fit its header") : Status();
  }
  std::string log(committed - end_, '\0');
  for (size_t have = 0; have < log.size();) {
    const ssize_t n = pread(fd_.get(), log.data() + have, log.size() - have, static_cast<off_t>(end_ + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("cannot read rendezvous file %s", in_quotes(path_).c_str());
    if (n == 0) return locked_ ? damaged("it became shorter") : Status();
    have += static_cast<size_t>(n);
  }
  HKT_TRY(parse(log));
  end_ = committed;
  return {};
}

Status FileStore::parse(std::string_view log) {
  wire::Reader in(log);
  while (in.ok() && in.left() > 0) {
    const uint32_t length = in.u32();
    const auto kind = static_cast<Kind>(in.u8());
    const uint32_t rank = in.u32();
    if (length > kMaxBody || rank >= static_cast<uint32_t>(kMaxRanks)) return damaged("a record is out of range");
    const std::string_view body = in.raw(length);
    if (!in.ok()) break;
    wire::Reader record(body);
    switch (kind) {
      case Kind::join:
        largest_ = std::max<size_t>(largest_, record.u32());
        joined_[static_cast<int>(rank)] = one_line(record.bytes(), 200);
        if (!record.done()) return damaged("a record does not parse");
        break;
      case Kind::leave:
        left_.insert(static_cast<int>(rank));
        break;
      case Kind::fail:
        if (!failure_) failure_ = wire::unpack_error(body);
        break;
      case Kind::put: {
        const std::string key(record.bytes());
        values_.emplace(key, record.bytes());
        if (!record.done()) return damaged("a record does not parse");
        break;
      }
      default:
        return damaged("a record is of unknown kind");
    }
  }
  return in.ok() ? Status() : damaged("a record is cut off");
}

// The caller holds the mutex and has refreshed.
Status FileStore::append(Kind kind, std::string_view body) {
  const std::string record = wire::Writer()
                                 .u32(static_cast<uint32_t>(body.size()))
                                 .u8(static_cast<uint8_t>(kind))
                                 .u32(static_cast<uint32_t>(rank_))
                                 .raw(body)
                                 .take();
  static_assert(kRecordHead == 4 + 1 + 4);
  const uint64_t committed = end_ + record.size();
  if (committed > kMaxFile) {
    return error(hktInternalError, "the ranks stored more than %llu MiB during bring-up",
                 static_cast<unsigned long long>(kMaxFile >> 20));
  }
  const std::string number = wire::Writer().u64(committed).take();
  // The committed size goes last: until then the record is not there.
  if (pwrite(fd_.get(), record.data(), record.size(), static_cast<off_t>(end_)) !=
          static_cast<ssize_t>(record.size()) ||
      pwrite(fd_.get(), number.data(), number.size(), kCommittedAt) != static_cast<ssize_t>(number.size())) {
    return sys_error("cannot write rendezvous file %s", in_quotes(path_).c_str());
  }
  return refresh();
}

Status FileStore::put(std::string_view key, std::string_view value) {
  if (key.size() > kMaxKey || value.size() > kMaxValue) {
    return error(hktInternalError, "a value of %zu bytes under %s is too long for bring-up (at most %zu)", value.size(),
                 in_quotes(key).c_str(), kMaxValue);
  }
  HKT_ASSIGN(const Guard guard, lock(deadline_));
  HKT_TRY(refresh());
  if (failure_) return *failure_;
  if (values_.count(std::string(key)) != 0)
    return error(hktInvalidUsage, "key %s exists already", in_quotes(key).c_str());
  return append(Kind::put, wire::Writer().bytes(key).bytes(value).view());
}

Result<Store::Found> FileStore::get(const std::vector<std::string>& keys, Deadline deadline) {
  const int64_t look_ns = std::max(int64_t{200'000'000}, nranks_ * int64_t{1'000'000});
  int64_t look = now_ns() + look_ns;
  size_t here = 0;  // so many of the keys, from the first on; they stay
  for (int us = 200;; us = std::min(us * 2, pause_us(5000))) {
    HKT_TRY(refresh());
    if (failure_) return *failure_;
    while (here < keys.size() && values_.count(keys[here]) != 0) ++here;
    Found out;
    if (here == keys.size()) {
      for (const std::string& key : keys) out.values.push_back(values_[key]);
      return out;
    }
    if (deadline.passed()) {
      for (size_t i = here; i < keys.size(); ++i) {
        if (values_.count(keys[i]) == 0) out.missing.push_back(static_cast<int>(i));
      }
      return out;
    }
    if (now_ns() >= look) {
      HKT_TRY(look_around());
      look = now_ns() + look_ns;
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
}

void FileStore::fail(const Error& failure) {
  Result<Guard> guard = lock(Deadline::in_ms(kLingerMs));
  if (!guard || !refresh().ok() || failure_) return;
  (void)append(Kind::fail, wire::pack_error(failure)).ok();
}

Status FileStore::leave(Deadline deadline) {
  if (!member_) return {};
  member_ = false;
  const auto all_left = [this]() { return left_.size() >= largest_; };
  const Deadline linger = Deadline::in_ms(kLingerMs);
  const Deadline patience = Deadline::at(std::max(deadline.ns(), linger.ns()));
  {
    HKT_ASSIGN(const Guard guard, lock(patience));
    HKT_TRY(refresh());
    HKT_TRY(append(Kind::leave, ""));
  }
  // This rank's lock keeps the file from being taken for stale, so that latecomers find the error in it.
  if (failure_ && concerns_latecomers(failure_->code)) {
    while (!all_left() && !linger.passed() && !deadline.passed() && refresh().ok()) pause_ms(5);
  }
  {
    HKT_ASSIGN(const Guard guard, lock(patience));
    HKT_TRY(refresh());
    // After a failure some ranks never come: then the last one that is here tidies up.
    const bool last = all_left() || !anybody_alive(kRankBytes, kMaxRanks);
    if (last && is_current()) unlink(path_.c_str());
  }
  fd_.reset();
  return {};
}

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& path, int rank, int nranks, Deadline deadline) {
  auto store = std::make_unique<FileStore>(path, rank, nranks, deadline);
  HKT_TRY(store->join());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace hocket
