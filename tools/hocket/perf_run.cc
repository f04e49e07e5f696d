#include "perf_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/deadline.h"
#include "base/types.h"
#include "commands.h"
#include "perf_data.h"
#include "perf_report.h"

namespace hocket::tool {
namespace {

// A failed call ends the rank: thrown, so that the measuring code reads straight.
struct Failed {
  hktResult_t code;
};

void check(hktResult_t r) {
  if (r != hktSuccess) throw Failed{r};
}

// Private, page-aligned memory for messages of up to `bytes`.
class Buffer {
 public:
  explicit Buffer(uint64_t bytes) : bytes_(std::max<uint64_t>(bytes, 1)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : p;
  }
  ~Buffer() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }

 private:
  uint64_t bytes_;
  void* data_;
};

class PerfRank {
 public:
  PerfRank(const PerfOptions& options, hktComm_t comm)
      : options_(options), comm_(comm), send_(largest()), recv_(largest()) {
    check(hktCommRank(comm, &rank_));
    check(hktCommCount(comm, &nranks_));
  }

  int run();

 private:
  uint64_t largest() const { return options_.collective == Collective::barrier ? 0 : options_.max_bytes; }
  // Bytes that all ranks must have: an error of one is an error of all.
  bool everyone(bool good) {
    int32_t bad = good ? 0 : 1;
    check(hktAllReduce(&bad, &bad, 1, hktInt32, hktMax, comm_, nullptr));
    return bad == 0;
  }
  template <class T>
  T over_ranks(T value, hktDataType_t type, hktRedOp_t op) {
    check(hktAllReduce(&value, &value, 1, type, op, comm_, nullptr));
    return value;
  }
  std::vector<Device> devices();
  void call(const void* send, void* recv, uint64_t count, hktDataType_t type, hktRedOp_t op, int root);
  Measured measure(Row& row, hktDataType_t type, hktRedOp_t op, bool in_place);
  void progress(const Row& row) const;

  const PerfOptions& options_;
  hktComm_t comm_;
  int rank_ = 0, nranks_ = 1;
  Buffer send_, recv_;
  uint32_t seed_ = 0;
};

void PerfRank::call(const void* send, void* recv, uint64_t count, hktDataType_t type, hktRedOp_t op, int root) {
  switch (options_.collective) {
    case Collective::all_reduce:
      return check(hktAllReduce(send, recv, count, type, op, comm_, nullptr));
    case Collective::broadcast:
      return check(hktBroadcast(send, recv, count, type, root, comm_, nullptr));
    case Collective::barrier:
      return check(hktBarrier(comm_, nullptr));
    default:
      break;  // not offered: see perf_options
  }
}

std::vector<Device> PerfRank::devices() {
  // Every rank writes its own entry of a zeroed table; the sum is everybody's.
  struct Entry {
    int32_t pid;
    char host[60];
  };
  std::vector<Entry> table(static_cast<size_t>(nranks_));
  Entry& mine = table[static_cast<size_t>(rank_)];
  mine.pid = static_cast<int32_t>(getpid());
  gethostname(mine.host, sizeof mine.host - 1);
  check(hktAllReduce(table.data(), table.data(), table.size() * sizeof(Entry), hktUint8, hktSum, comm_, nullptr));
  std::vector<Device> list;
  for (int r = 0; r < nranks_; ++r) {
    const Entry& e = table[static_cast<size_t>(r)];
    list.push_back({r, e.pid, std::string(e.host, strnlen(e.host, sizeof e.host))});
  }
  return list;
}

Measured PerfRank::measure(Row& row, hktDataType_t type, hktRedOp_t op, bool in_place) {
  const uint64_t count = row.count;
  const bool reduces = options_.collective == Collective::all_reduce;
  const bool moves = options_.collective != Collective::barrier;
  const int root = std::max(row.root, 0);
  const void* send = in_place ? recv_.data() : send_.data();
  void* recv = recv_.data();
  Measured m;

  if (moves) PerfData(type, reduces ? op : hktSum, nranks_, seed_).fill(in_place ? recv : send_.data(), count, rank_);
  for (int i = 0; i < options_.warmup; ++i) call(send, recv, count, type, op, root);
  check(hktBarrier(comm_, nullptr));
  std::vector<double> times;
  const int64_t start = now_ns();
  for (int i = 0; i < options_.iters; ++i) {
    const int64_t before = options_.percentiles ? now_ns() : 0;
    call(send, recv, count, type, op, root);
    if (options_.percentiles) times.push_back(static_cast<double>(now_ns() - before) / 1e3);
  }
  double us = static_cast<double>(now_ns() - start) / 1e3 / options_.iters;
  switch (options_.average) {
    case Average::rank0:
      us = over_ranks(rank_ == 0 ? us : 0.0, hktFloat64, hktSum);
      break;
    case Average::mean:
      us = over_ranks(us, hktFloat64, hktAvg);
      break;
    case Average::min:
      us = over_ranks(us, hktFloat64, hktMin);
      break;
    case Average::max:
      us = over_ranks(us, hktFloat64, hktMax);
      break;
  }
  m.time_us = us;
  m.alg_bw = us > 0 ? static_cast<double>(row.size) / us / 1e3 : 0;
  m.bus_bw = m.alg_bw * bus_factor(options_.collective, nranks_);
  if (!times.empty()) {
    check(hktAllReduce(times.data(), times.data(), times.size(), hktFloat64, hktMax, comm_, nullptr));
    std::sort(times.begin(), times.end());
    m.p50_us = times[times.size() / 2];
    m.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  }

  if (options_.check == 0) return m;
  m.wrong = 0;
  for (int i = 0; i < options_.check; ++i) {
    if (moves) {
      const PerfData data(type, reduces ? op : hktSum, nranks_, ++seed_);
      std::memset(recv, 0xa5, row.size);
      data.fill(in_place ? recv : send_.data(), count, rank_);
      call(send, recv, count, type, op, root);
      m.wrong += static_cast<int64_t>(reduces ? data.wrong_reduced(recv, count) : data.wrong_copied(recv, count, root));
      // The input of an out-of-place call belongs to the caller.
      if (!in_place) m.wrong += static_cast<int64_t>(data.wrong_copied(send_.data(), count, rank_));
    } else {
      call(nullptr, nullptr, 0, type, op, root);
    }
  }
  m.wrong = over_ranks<int64_t>(m.wrong, hktInt64, hktSum);
  return m;
}

void PerfRank::progress(const Row& row) const {
  if (rank_ == 0 && isatty(STDERR_FILENO)) {
    std::fprintf(stderr, "\r\033[K  %s, %llu bytes ...\r", options_.collective_text.c_str(),
                 static_cast<unsigned long long>(row.size));
    std::fflush(stderr);
  }
}

// The words that this process was started with.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Opens the file that the results go to, never one that exists: name, name.0, name.1, ...
Result<std::FILE*> open_new(const std::string& name) {
  for (int i = -1; i < 1000; ++i) {
    const std::string path = i < 0 ? name : name + "." + std::to_string(i);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) return fdopen(fd, "w");
    if (errno != EEXIST) return sys_error("--json: cannot create %s", path.c_str());
  }
  return error(hktInvalidUsage, "--json: %s and 1000 numbered names beside it exist; remove some", name.c_str());
}

int PerfRank::run() {
  if (!everyone(send_.data() != nullptr && recv_.data() != nullptr)) {
    if (rank_ == 0)
      (void)complain(1, format("no memory for two buffers of %llu bytes on every rank; lower -e",
                               static_cast<unsigned long long>(options_.max_bytes)));
    return 1;
  }
  if (!options_.roots.empty() && options_.roots.front() >= nranks_) {
    if (rank_ == 0)
      (void)complain(2, format("-r %d must be less than the number of ranks, %d", options_.roots.front(), nranks_));
    return 2;
  }
  std::FILE* json = nullptr;
  if (rank_ == 0 && !options_.json.empty()) {
    auto opened = open_new(options_.json);
    if (opened.ok())
      json = *opened;
    else
      (void)complain(1, opened.error().text);
  }
  if (!everyone(rank_ != 0 || options_.json.empty() || json != nullptr)) return 1;

  Report report(options_, devices(), command_line());
  if (rank_ == 0) report.begin(stdout);
  const bool reduces = options_.collective == Collective::all_reduce;
  std::vector<int> roots = options_.roots;
  if (roots.empty())
    for (int r = 0; r < nranks_; ++r) roots.push_back(r);
  if (options_.collective != Collective::broadcast) roots = {-1};
  for (int cycle = 0; cycle < options_.cycles; ++cycle) {
    for (const uint64_t size : options_.sizes()) {
      for (const hktDataType_t type : options_.types) {
        for (const hktRedOp_t op : reduces ? options_.ops : std::vector<hktRedOp_t>{hktSum}) {
          if (unsupported(type, op) != nullptr) continue;
          for (const int root : roots) {
            Row row;
            row.count = size / type_size(type);
            row.size = row.count * type_size(type);
            row.type = type_name(type);
            row.op = reduces ? op_name(op) : "none";
            row.root = root;
            progress(row);
            row.out_of_place = measure(row, type, op, false);
            row.in_place = measure(row, type, op, true);
            if (rank_ == 0) report.row(stdout, row);
          }
        }
        if (options_.collective == Collective::barrier) break;  // has no type
      }
    }
  }
  int64_t wrong = 0;
  if (rank_ == 0) {
    report.end(stdout);
    wrong = report.wrong();
    if (json != nullptr) {
      const std::string text = report.json().dump(2) + "\n";
      const bool written = std::fwrite(text.data(), 1, text.size(), json) == text.size();
      if (std::fclose(json) != 0 || !written)
        return complain(1, format("--json: cannot write %s", options_.json.c_str()));
    }
  }
  return over_ranks<int64_t>(wrong, hktInt64, hktMax) == 0 ? 0 : 1;
}

}  // namespace

int perf_rank(const PerfOptions& options) {
  hktComm_t comm = nullptr;
  if (hktCommInitEnv(&comm, nullptr) != hktSuccess) return complain(1, hktGetLastError());
  int status = 1;
  try {
    status = PerfRank(options, comm).run();
  } catch (const Failed& f) {
    (void)complain(1, std::string(hktGetErrorString(f.code)) + ": " + hktGetLastError());
  }
  (void)hktCommDestroy(comm);
  return status;
}

}  // namespace hocket::tool
