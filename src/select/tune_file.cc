#include "select/tune_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "hocket/hocket.h"

namespace hocket::select {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr size_t kMostBytes = 64 * 1024;

struct File {
  int fd;
  explicit File(int opened) : fd(opened) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

// The rest of the first line of /proc/cpuinfo that begins with `field`.
std::string cpuinfo(std::string_view field) {
  std::string found;
  std::FILE* const f = std::fopen("/proc/cpuinfo", "re");
  if (f == nullptr) return found;
  char line[1024];
  while (found.empty() && std::fgets(line, sizeof line, f) != nullptr) {
    const std::string_view text(line);
    const size_t colon = text.find(": ");
    if (text.substr(0, field.size()) == field && colon != std::string_view::npos) found = text.substr(colon + 2);
  }
  std::fclose(f);
  return one_line(found.substr(0, found.find('\n')), 200);
}

uint64_t fnv(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

Error wrong(const std::string& name, const char* field, const std::string& what) {
  return error(hktInvalidArgument, "%s: %s: %s; make it anew by `hocket tune`", name.c_str(), field, what.c_str());
}

}  // namespace

std::string machine_key() {
  std::string model = cpuinfo("model name");
  if (model.empty()) model = cpuinfo("CPU part");
  return format("%s, family %s model %s, %ld CPUs, caches %ld %ld %ld, Hocket %d.%d.%d", model.c_str(),
                cpuinfo("cpu family").c_str(), cpuinfo("model\t").c_str(), sysconf(_SC_NPROCESSORS_ONLN),
                sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE),
                HKT_MAJOR, HKT_MINOR, HKT_PATCH);
}

std::string tune_path() {
  std::string cache;
  if (const char* const xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/')
    cache = xdg;
  else if (const char* const home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    cache = std::string(home) + "/.cache";
  if (cache.empty()) return "";
  return cache + format("/hocket/tune-%016llx.json", static_cast<unsigned long long>(fnv(machine_key())));
}

std::string tune_text(const Costs& costs, std::string_view machine) {
  Json all = Json::object();
  for (const CostField& f : kCostFields) all[f.name] = costs.*f.field;
  return Json{{"hocket_tune", kFormat}, {"machine", machine}, {"costs", all}}.dump(1, ' ', true,
                                                                                   Json::error_handler_t::replace) +
         "\n";
}

Result<Costs> parse_tune(std::string_view text, std::string_view machine, const std::string& name) {
  if (text.size() > kMostBytes)
    return wrong(name, "size", format("more than %zu bytes are not a tune file", kMostBytes));
  // Depth first: a parser that recurses must not be led down a text of brackets.
  if (std::count(text.begin(), text.end(), '{') > 2 || std::count(text.begin(), text.end(), '[') > 0)
    return wrong(name, "format", "expected an object with hocket_tune, machine, and costs as an object of numbers");
  const Json file = Json::parse(text, nullptr, false);
  if (!file.is_object()) return wrong(name, "format", "it is no JSON object");
  const auto field = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() ? *found : Json();
  };
  const Json version = field(file, "hocket_tune"), of = field(file, "machine"), costs = field(file, "costs");
  if (!version.is_number_integer() || version != kFormat)
    return wrong(name, "hocket_tune", format("expected format %d", kFormat));
  if (!of.is_string()) return wrong(name, "machine", "expected a text");
  if (of.get_ref<const std::string&>() != machine)
    return wrong(name, "machine",
                 "it is for " + in_quotes(of.get_ref<const std::string&>()) + ", this is " + in_quotes(machine));
  if (!costs.is_object()) return wrong(name, "costs", "expected an object of numbers");
  Costs made;
  for (const CostField& f : kCostFields) {
    const Json value = field(costs, f.name);
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > kMostCost)
      return wrong(name, (std::string("costs.") + f.name).c_str(),
                   format("expected a whole number from 1 to %llu", static_cast<unsigned long long>(kMostCost)));
    made.*f.field = value.get<uint64_t>();
  }
  if (costs.size() != kCostFields.size()) return wrong(name, "costs", "there are numbers that this version knows not");
  return made;
}

Result<Costs> read_tune(const std::string& path) {
  // What is no regular file could keep a reader waiting.
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.fd < 0) return sys_error("%s", path.c_str());
  struct stat about {};
  if (fstat(file.fd, &about) != 0) return sys_error("%s", path.c_str());
  if (!S_ISREG(about.st_mode)) return wrong(path, "format", "it is no regular file");
  std::string text(kMostBytes + 1, '\0');
  size_t have = 0;
  for (;;) {
    const ssize_t n = read(file.fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("%s", path.c_str());
    if (n == 0) break;
    have += static_cast<size_t>(n);
    if (have == text.size()) break;
  }
  text.resize(have);
  return parse_tune(text, machine_key(), path);
}

Status write_tune(const std::string& path, const Costs& costs) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (mkdir(path.substr(0, at).c_str(), 0777) != 0 && errno != EEXIST)
      return sys_error("cannot make the folder %s", path.substr(0, at).c_str());
  // A reader sees the old file or the new one, never a part.
  std::string part = path + ".XXXXXX";
  const File file(mkostemp(part.data(), O_CLOEXEC));
  if (file.fd < 0) return sys_error("cannot write %s", path.c_str());
  const std::string text = tune_text(costs, machine_key());
  const bool written = write(file.fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fchmod(file.fd, 0644) == 0 && rename(part.c_str(), path.c_str()) == 0;
  if (written) return {};
  Error failed = sys_error("cannot write %s", path.c_str());
  unlink(part.c_str());
  return failed;
}

Costs costs_of_this_machine(LogId who) {
  const std::string path = tune_path();
  if (path.empty() || (access(path.c_str(), F_OK) != 0 && errno == ENOENT)) return {};
  Result<Costs> costs = read_tune(path);
  if (costs.ok()) return *costs;
  HKT_WARN(tune, who, "the costs of this machine are not used, but the defaults: %s", costs.error().text.c_str());
  return {};
}

}  // namespace hocket::select
