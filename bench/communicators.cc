// What communicators made from a communicator cost, seen by rank 0 of processes that this program starts:
//   hocket-communicators [--np 2] [--count 100] [--transport shm] [--json FILE]
// time of each way to make one, resident memory and descriptors of an unused one, resident memory and reserved shared
// memory after a first small call, and large calls against those of the parent. Status 1 if anything fails.
#include <hocket/hocket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kLargest = size_t{4} << 20;  // floats of a large call

struct Options {
  int ranks = 2;
  int count = 100;
  std::string transport = "shm";
  std::string json;
};

struct Row {
  std::string what;
  double value;
  const char* unit;
  double limit;  // 0: none
};

void check(hktResult_t result, const char* what) {
  if (result == hktSuccess) return;
  std::fprintf(stderr, "communicators: %s: %s: %s\n", what, hktGetErrorString(result), hktGetLastError());
  std::exit(1);
}

double resident_kib() {
  long pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

// Open descriptors, and the memory that the shared files among them have reserved.
struct Files {
  double descriptors = 0, shared_kib = 0;
};
Files files() {
  Files f;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++f.descriptors;
    std::error_code gone;  // the directory's own
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat info {};
    if (target.find("memfd:hocket") != std::string::npos && stat(entry.path().c_str(), &info) == 0)
      f.shared_kib += static_cast<double>(info.st_blocks) / 2;
  }
  return f;
}

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The least of a few: what disturbs a call only makes it longer.
double large_call_us(hktComm_t comm, std::vector<float>& in, std::vector<float>& out, size_t count) {
  double least = 1e9;
  for (int i = 0; i < 30; ++i)
    least =
        std::min(least, seconds([&] {
                   check(hktAllReduce(in.data(), out.data(), count, hktFloat32, hktSum, comm, nullptr), "hktAllReduce");
                 }));
  return least * 1e6;
}

using Make = std::function<hktComm_t()>;

double time_of_making(const Options& o, hktComm_t world, const Make& make) {
  std::vector<hktComm_t> made;
  check(hktBarrier(world, nullptr), "hktBarrier");
  const double s = seconds([&] {
    for (int i = 0; i < o.count; ++i) made.push_back(make());
  });
  for (hktComm_t c : made) check(hktCommDestroy(c), "hktCommDestroy");
  check(hktBarrier(world, nullptr), "hktBarrier");
  return s / o.count * 1e6;
}

std::vector<Row> measure(const Options& o, hktComm_t world) {
  std::vector<Row> rows;
  int rank = 0;
  check(hktCommRank(world, &rank), "hktCommRank");
  std::vector<int> everybody;
  for (int r = 0; r < o.ranks; ++r) everybody.push_back(r);
  const auto split = [&] {
    hktComm_t c = nullptr;
    check(hktCommSplit(world, 0, rank, &c, nullptr), "hktCommSplit");
    return c;
  };
  const auto dup = [&] {
    hktComm_t c = nullptr;
    check(hktCommDup(world, &c, nullptr), "hktCommDup");
    return c;
  };
  const auto create = [&] {
    hktComm_t c = nullptr;
    check(hktCommCreate(world, everybody.data(), o.ranks, 0, &c, nullptr), "hktCommCreate");
    return c;
  };
  rows.push_back({"split", time_of_making(o, world, split), "us", 0});
  rows.push_back({"dup", time_of_making(o, world, dup), "us", 0});
  rows.push_back({"create", time_of_making(o, world, create), "us", 0});

  std::vector<float> in(kLargest), out(kLargest);
  for (const size_t count : {kLargest / 256, kLargest / 16, kLargest}) (void)large_call_us(world, in, out, count);
  std::vector<hktComm_t> children;
  children.reserve(static_cast<size_t>(o.count));
  const double resident = resident_kib();
  const Files before = files();
  for (int i = 0; i < o.count; ++i) children.push_back(split());
  const double n = o.count;
  const Files unused = files();
  const bool limits = o.ranks == 2 && o.transport == "shm";
  rows.push_back({"unused: resident", (resident_kib() - resident) / n, "KiB", limits ? 64.0 : 0});
  rows.push_back({"unused: descriptors", (unused.descriptors - before.descriptors) / n, "", limits ? 2.0 : 0});
  for (hktComm_t c : children) {
    float x = 1, sum = 0;
    check(hktAllReduce(&x, &sum, 1, hktFloat32, hktSum, c, nullptr), "hktAllReduce");
    if (sum != static_cast<float>(o.ranks)) check(hktInternalError, "a wrong sum");
  }
  const Files used = files();
  rows.push_back({"used: resident", (resident_kib() - resident) / n, "KiB", limits ? 1024.0 : 0});
  rows.push_back({"used: descriptors", (used.descriptors - before.descriptors) / n, "", 0});
  rows.push_back({"used: shared memory per rank", (used.shared_kib - before.shared_kib) / n / o.ranks, "KiB",
                  limits ? 1024.0 : 0});

  for (const size_t count : {kLargest / 256, kLargest / 16, kLargest}) {
    const double of_parent = large_call_us(world, in, out, count);
    const double of_child = large_call_us(children.front(), in, out, count);
    rows.push_back({"all-reduce of " + std::to_string(count * sizeof(float) >> 10) + " KiB, child / parent",
                    of_child / of_parent, "", 0});
  }
  for (hktComm_t c : children) check(hktCommDestroy(c), "hktCommDestroy");
  check(hktBarrier(world, nullptr), "hktBarrier");
  rows.push_back({"left after all are destroyed: shared memory", files().shared_kib - before.shared_kib, "KiB", 0});
  return rows;
}

int run_rank(const Options& o, const std::string& directory, int rank) {
  const std::string url =
      "file://" + directory + "/meet?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(o.ranks);
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = o.transport.c_str();
  hktComm_t world = nullptr;
  check(hktCommInitUrl(&world, url.c_str(), &config), "hktCommInitUrl");
  const std::vector<Row> rows = measure(o, world);
  check(hktCommDestroy(world), "hktCommDestroy");
  if (rank != 0) return 0;
  bool good = true;
  std::printf("# %d communicators of %d ranks over %s, rank 0\n", o.count, o.ranks, o.transport.c_str());
  for (const Row& r : rows) {
    std::printf("%-46s %10.2f %s", r.what.c_str(), r.value, r.unit);
    if (r.limit > 0) std::printf("  (at most %.0f)", r.limit);
    const bool met = r.limit == 0 || r.value <= r.limit;
    std::printf("%s\n", met ? "" : "  TOO MUCH");
    good = good && met;
  }
  if (!o.json.empty()) {
    std::FILE* f = std::fopen(o.json.c_str(), "we");
    if (f == nullptr) {
      std::perror(o.json.c_str());
      return 1;
    }
    std::fprintf(f, "{\"communicators\": %d, \"ranks\": %d, \"transport\": \"%s\", \"results\": [", o.count, o.ranks,
                 o.transport.c_str());
    for (size_t i = 0; i < rows.size(); ++i)
      std::fprintf(f, "%s\n  {\"what\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"limit\": %.0f}", i == 0 ? "" : ",",
                   rows[i].what.c_str(), rows[i].value, rows[i].unit, rows[i].limit);
    std::fprintf(f, "\n]}\n");
    std::fclose(f);
  }
  return good ? 0 : 1;
}

bool number(const char* text, int least, int& out) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < least || value > 100'000) return false;
  out = static_cast<int>(value);
  return true;
}

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    const bool good = flag == "--np"          ? number(value, 1, o.ranks)
                      : flag == "--count"     ? number(value, 1, o.count)
                      : flag == "--transport" ? !(o.transport = value).empty()
                      : flag == "--json"      ? !(o.json = value).empty()
                                              : false;
    if (good) continue;
    std::fprintf(stderr, "usage: %s [--np 2] [--count 100] [--transport auto|shm|tcp] [--json FILE]\n", argv[0]);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, o)) return 2;
  char directory[] = "/tmp/hocket-communicators.XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  std::vector<pid_t> pids;
  for (int rank = 0; rank < o.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) std::exit(run_rank(o, directory, rank));
    if (pid < 0) std::perror("fork");
    pids.push_back(pid);
  }
  int worst = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) worst = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return worst;
}
