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

#include "api/handle.h"
#include "base/deadline.h"
#include "base/types.h"
#include "commands.h"
#include "perf_collective.h"
#include "perf_data.h"
#include "perf_report.h"
#include "schedule/buffers.h"
#include "select/explain.h"

namespace hocket::tool {
namespace {

// A failed call ends the rank: thrown, so that the measuring code reads straight.
struct Failed {
  hktResult_t code;
};

void check(hktResult_t r) {
  if (r != hktSuccess) throw Failed{r};
}

// Page-aligned memory for messages of up to `bytes`, private or registered with `comm`.
class Buffer {
 public:
  Buffer(uint64_t bytes, hktComm_t comm, bool registered) : bytes_(std::max<uint64_t>(bytes, 1)), comm_(comm) {
    if (registered) {
      if (hktMemAlloc(&data_, bytes_) != hktSuccess) data_ = nullptr;
      // Without memory it takes part nevertheless: all ranks make the same calls until all know.
      check(hktCommRegister(comm_, data_, data_ != nullptr ? bytes_ : 0, &registration_));
      return;
    }
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : p;
  }
  ~Buffer() {
    if (registration_ != nullptr) {
      // Collective, as it is reached on all ranks or with a communicator that has failed.
      if (hktCommDeregister(comm_, registration_) == hktSuccess) (void)hktMemFree(data_);
    } else if (data_ != nullptr) {
      munmap(data_, bytes_);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }

 private:
  uint64_t bytes_;
  hktComm_t comm_;
  void* data_ = nullptr;
  hktRegistration_t registration_ = nullptr;
};

class PerfRank {
 public:
  PerfRank(const PerfOptions& options, hktComm_t comm)
      : options_(options),
        comm_(comm),
        send_(largest(), comm, options.registered != 0),
        recv_(largest(), comm, options.registered != 0) {
    check(hktCommRank(comm, &rank_));
    check(hktCommCount(comm, &nranks_));
    call_options_.request = &request_;
  }

  int run();

 private:
  Collective collective() const { return options_.collective(); }
  uint64_t largest() const { return collective() == Collective::barrier ? 0 : options_.max_bytes; }
  // What all ranks must have: an error of one is an error of all.
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
  // The rows of one type, operation and root.
  void measure_sizes(hktDataType_t type, hktRedOp_t op, int root, Report& report);
  Measured measure(const PerfCall& unplaced, Placement placement, uint64_t size);
  // One call, from its beginning to its end.
  void make(const PerfCall& call) {
    check(options_.test->call(call));
    if (request_ != nullptr) check(hktRequestWait(&request_));
  }
  PerfCall placed(PerfCall call, Placement placement) const;
  int64_t wrong_elements(const PerfCall& call, Placement placement);
  PerfData data_of(const PerfCall& call) const {
    const bool folds = reduces(collective()) && options_.test->traffic == Traffic::collective;
    return {call.type, folds ? std::optional(call.op) : std::nullopt, nranks_, seed_};
  }
  uint64_t in_elements(const PerfCall& call) const { return perf_in_elements(collective(), call.count, nranks_); }
  uint64_t out_elements(const PerfCall& call) const { return perf_out_elements(collective(), call.count, nranks_); }
  // Why a size is done as it is: the only thing that does not come through the C interface.
  void explain(uint64_t size) const;
  void progress(uint64_t size) const;

  const PerfOptions& options_;
  hktComm_t comm_;
  int rank_ = 0, nranks_ = 1;
  Buffer send_, recv_;
  uint32_t seed_ = 0;
  hktRequest_t request_ = nullptr;  // of the call under way; stays null where calls block
  hktCallOptions_t call_options_ = HKT_CALL_OPTIONS_INITIALIZER;
};

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

// The buffers of the call. In place, the own block lies where it belongs in the larger buffer.
PerfCall PerfRank::placed(PerfCall call, Placement placement) const {
  const bool in_place = placement == Placement::in_place;
  const uint64_t own = static_cast<uint64_t>(rank_) * call.count * type_size(call.type);
  const auto at = [](const Buffer& b, uint64_t offset) { return static_cast<unsigned char*>(b.data()) + offset; };
  if (!in_is_at_root(collective()) || rank_ == call.root)
    call.send = at(in_place ? recv_ : send_, in_place && in_is_own_block(collective()) ? own : 0);
  if (!out_is_at_root(collective()) || rank_ == call.root)
    call.recv = at(recv_, in_place && out_is_own_block(collective()) ? own : 0);
  return call;
}

// Makes one call with fresh data. Counts what is wrong on this rank.
int64_t PerfRank::wrong_elements(const PerfCall& call, Placement placement) {
  ++seed_;
  const PerfData data = data_of(call);
  std::memset(recv_.data(), 0xa5, std::max(in_elements(call), out_elements(call)) * type_size(call.type));
  if (call.send != nullptr) data.fill(call.send, in_elements(call), rank_);
  make(call);
  uint64_t wrong = 0;
  if (call.recv != nullptr) {
    for (const Piece& p : perf_expected(*options_.test, call)) {
      const auto* from = static_cast<const unsigned char*>(call.recv) + p.at * type_size(call.type);
      wrong += p.source == kReduced ? data.wrong_reduced(from, p.count, p.first)
                                    : data.wrong_copied(from, p.count, p.source, p.first);
    }
  }
  // An input that the result has not replaced belongs to the caller.
  if (call.send != nullptr && (placement == Placement::out_of_place || call.recv == nullptr))
    wrong += data.wrong_copied(call.send, in_elements(call), rank_);
  return static_cast<int64_t>(wrong);
}

Measured PerfRank::measure(const PerfCall& unplaced, Placement placement, uint64_t size) {
  const PerfCall call = placed(unplaced, placement);
  Measured m;
  if (call.send != nullptr) data_of(call).fill(call.send, in_elements(call), rank_);
  for (int i = 0; i < options_.warmup; ++i) make(call);
  check(hktBarrier(comm_, nullptr));
  std::vector<double> times;
  const int64_t start = now_ns();
  for (int i = 0; i < options_.iters; ++i) {
    const int64_t before = options_.percentiles ? now_ns() : 0;
    make(call);
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
  m.alg_bw = us > 0 ? static_cast<double>(size) / us / 1e3 * alg_factor(*options_.test, nranks_) : 0;
  m.bus_bw = m.alg_bw * bus_factor(*options_.test, nranks_);
  if (!times.empty()) {
    check(hktAllReduce(times.data(), times.data(), times.size(), hktFloat64, hktMax, comm_, nullptr));
    std::sort(times.begin(), times.end());
    m.p50_us = times[times.size() / 2];
    m.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  }

  if (options_.check == 0 || (placement == Placement::in_place && !options_.test->checks_in_place())) return m;
  m.wrong = 0;
  for (int i = 0; i < options_.check; ++i) m.wrong += wrong_elements(call, placement);
  m.wrong = over_ranks<int64_t>(m.wrong, hktInt64, hktSum);
  return m;
}

void PerfRank::measure_sizes(hktDataType_t type, hktRedOp_t op, int root, Report& report) {
  for (const uint64_t size : options_.sizes()) {
    progress(size);
    PerfCall call;
    call.comm = comm_;
    call.count = perf_count(collective(), size, type_size(type), nranks_);
    call.type = type;
    call.op = op;
    call.root = root;
    call.rank = rank_;
    call.nranks = nranks_;
    if (options_.nonblocking) call.options = &call_options_;
    if (options_.test->traffic == Traffic::uneven) make_uneven(call);
    Row row;
    row.count = call.count;
    row.size = std::max(in_elements(call), out_elements(call)) * type_size(type);
    row.type = type_name(type);
    row.op = reduces(collective()) ? op_name(op) : "none";
    row.root = is_rooted(collective()) ? root : -1;
    row.out_of_place = measure(call, Placement::out_of_place, row.size);
    if (options_.test->runs_in_place()) row.in_place = measure(call, Placement::in_place, row.size);
    if (rank_ == 0 && options_.explain && options_.test->traffic == Traffic::collective) explain(row.size);
    if (rank_ == 0) report.row(stdout, row);
  }
}

void PerfRank::explain(uint64_t size) const {
  const Parts& parts = comm_->comm->parts();
  const select::Grounds grounds{parts.facts, parts.costs, parts.algo, parts.determinism};
  const Result<select::Explanation> e = select::explain(grounds, collective(), size);
  std::printf("# %s: %s\n", options_.test->name, e.ok() ? select::sentence(e.value()).c_str() : e.error().text.c_str());
}

void PerfRank::progress(uint64_t size) const {
  if (rank_ == 0 && isatty(STDERR_FILENO)) {
    std::fprintf(stderr, "\r\033[K  %s, %llu bytes ...\r", options_.test->name, static_cast<unsigned long long>(size));
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

// Whether all of it reached the file.
bool write_and_close(std::FILE* file, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
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
  if (const char* why = unsupported_ranks(*options_.test, nranks_); why != nullptr) {
    if (rank_ == 0) (void)complain(2, format("%d ranks: %s", nranks_, why));
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
  std::vector<int> roots = is_rooted(collective()) ? options_.roots : std::vector{0};
  if (roots.empty())
    for (int r = 0; r < nranks_; ++r) roots.push_back(r);
  const std::vector<hktRedOp_t> ops = reduces(collective()) ? options_.ops : std::vector{hktSum};
  for (const hktDataType_t type : options_.types) {
    for (const hktRedOp_t op : ops) {
      if (reduces(collective()) && unsupported(type, op) != nullptr) continue;
      for (const int root : roots)
        for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
          measure_sizes(type, op, root, report);
    }
    if (collective() == Collective::barrier) break;  // has no type
  }
  int32_t good = 1;
  if (rank_ == 0) {
    report.end(stdout);
    const bool written = json == nullptr || write_and_close(json, report.json().dump(2) + "\n");
    if (!written) (void)complain(1, format("--json: cannot write %s", options_.json.c_str()));
    good = report.good() && written ? 1 : 0;
  }
  return over_ranks(good, hktInt32, hktMin) == 1 ? 0 : 1;
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
