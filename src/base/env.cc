#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "base/text.h"

namespace hocket::env {
namespace {

constexpr Variable kTable[] = {
    {"HOCKET_INIT", "env://", "env://, tcp://HOST:PORT[?rank=R&world_size=N], file:///PATH[?rank=R&world_size=N]",
     "How the ranks of a job find each other."},
    {"HOCKET_INIT_TIMEOUT", "30", "seconds, 0.001 to 31536000",
     "Deadline for the whole of bring-up; ranks that have not come by then are named."},
    {"HOCKET_TIMEOUT", "600", "seconds, 0.001 to 31536000", "Deadline of one collective call."},
    {"HOCKET_TRANSPORT", "auto", "auto, shm, tcp",
     "How ranks exchange data; auto takes shared memory within a host and TCP between hosts."},
    {"HOCKET_PROGRESS", "caller", "caller, thread",
     "Who moves calls that do not block: the caller, while it is in a call, or also a thread of the process, while the "
     "caller computes."},
    {"HOCKET_SHM", "memfd", "memfd, devshm, off",
     "Where shared memory comes from: anonymous memory passed over a Unix socket, or files in /dev/shm."},
    {"HOCKET_HOST_ID", "", "text of at most 128 bytes",
     "Ranks with different values count as being on different hosts; by default the boot id and the network "
     "namespace."},
    {"HOCKET_SPARES", "0", "whole number",
     "How many of the last ranks of a rank table are spare cards, which are no ranks of the job; equal on all ranks."},
    {"HOCKET_ALGO", "", "planners of `hocket plan list`, comma-separated",
     "Each takes over the collectives that have one of this name, at every size; equal on all ranks."},
    {"HOCKET_PROTO", "auto", "auto, slot, mapped, direct, cma",
     "How large messages go between ranks that share memory: slot copies all of them; mapped and direct use only that "
     "way past the copies, of registered memory; cma has private memory read by the receiver wherever that can be."},
    {"HOCKET_CMA", "auto", "auto, 0, 1",
     "Whether ranks of a host read one another's private memory (process_vm_readv): auto if all may, 0 never; 1 makes "
     "it an error of bring-up if they may not."},
    {"HOCKET_DETERMINISM", "R1", "R1, R2, R3, R4",
     "What the bits of reductions may depend on (docs/determinism.md); equal on all ranks."},
    {"HOCKET_SOCKET_IFNAME", "", "list such as eth,=ib0 or ^docker,lo",
     "Network interfaces to use: names that begin so, = for the exact name, a leading ^ for all others."},
    {"HOCKET_SOCKET_FAMILY", "auto", "auto, ipv4, ipv6", "Address family of sockets; auto uses both."},
    {"HOCKET_PORT_RANGE", "", "ports such as 60000-60050,60100, or auto",
     "TCP ports to listen at; by default the system gives free ones."},
    {"HOCKET_SECRET", "", "16 to 4096 bytes, equal on all ranks",
     "Secret of the job: who does not prove that it knows it is refused (docs/security.md)."},
    {"HOCKET_SECRET_FILE", "", "path of a file of this user with mode 0600 or 0400",
     "File with the secret of the job."},
    {"HOCKET_NSOCKS_PERPEER", "1", "1 to 16",
     "TCP connections of a pair of ranks that large messages are shared out to, once some flow; the higher rank's "
     "value counts."},
    {"HOCKET_RESTART_COUNT", "", "a number, set by `hocket run`", "How often `hocket run` has restarted the job."},
    {"HOCKET_DEBUG", "WARN", "NONE, ERROR, WARN, INFO, TRACE", "Which log lines are written."},
    {"HOCKET_DEBUG_SUBSYS", "ALL", "list of INIT, COLL, NET, SHM, TUNE, ENV, ALL; a leading ^ means all others",
     "Parts of the library whose INFO and TRACE lines are written."},
    {"HOCKET_DEBUG_FILE", "", "path; %h is the host's name, %p the process id",
     "File that log lines are appended to instead of standard error."},
};

const Variable* find(std::string_view name) {
  for (const Variable& variable : kTable) {
    if (name == variable.name) return &variable;
  }
  return nullptr;
}

const char* nearest(std::string_view name) {
  const Variable* best = kTable;
  for (const Variable& variable : kTable) {
    if (edit_distance(name, variable.name) < edit_distance(name, best->name)) best = &variable;
  }
  return best->name;
}

void warn_unknown_now() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, 7) != "HOCKET_" || find(name) != nullptr) continue;
    if (name.substr(0, 12) == "HOCKET_TEST_")
      continue;  // for the test suite's programs, which the library is linked into
    HKT_WARN(env, LogId{}, "environment variable %s is unknown and has no effect; did you mean %s?",
             in_quotes(name).c_str(), nearest(name));
  }
}

}  // namespace

std::span<const Variable> table() { return kTable; }

namespace {

// Its value, null if it is not set.
const char* value_of(std::string_view name) {
  if (find(name) == nullptr) {
    // A name that documentation would not have: a fault of the caller in every build.
    std::fprintf(stderr, "hocket: %.*s is not in the table of src/base/env.cc\n", static_cast<int>(name.size()),
                 name.data());
    std::abort();
  }
  return std::getenv(std::string(name).c_str());
}

}  // namespace

std::optional<std::string> get(std::string_view name) {
  const char* const value = value_of(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool set_and_empty(std::string_view name) {
  const char* const value = value_of(name);
  return value != nullptr && *value == '\0';
}

Result<int64_t> get_int(std::string_view name, int64_t fallback, int64_t low, int64_t high) {
  const std::optional<std::string> text = get(name);
  if (!text) return fallback;
  const std::optional<int64_t> value = parse_int(*text);
  if (!value || *value < low || *value > high) {
    return error(hktInvalidUsage, "environment variable %s is %s: set it to a whole number from %lld to %lld",
                 std::string(name).c_str(), in_quotes(*text).c_str(), static_cast<long long>(low),
                 static_cast<long long>(high));
  }
  return *value;
}

Result<std::string> get_choice(std::string_view name, std::string_view fallback,
                               std::span<const std::string_view> choices) {
  std::optional<std::string> text = get(name);
  if (!text) return std::string(fallback);
  std::string list;
  for (const std::string_view choice : choices) {
    if (*text == choice) return *std::move(text);
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  return error(hktInvalidUsage, "environment variable %s is %s: set it to one of %s", std::string(name).c_str(),
               in_quotes(*text).c_str(), list.c_str());
}

Result<int64_t> get_seconds_ms(std::string_view name, int64_t fallback_ms) {
  const std::optional<std::string> text = get(name);
  if (!text) return fallback_ms;
  constexpr double kYear = 31'536'000;
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, failure] = std::from_chars(text->data(), end, seconds);
  // Written so that a NaN is refused, too.
  if (failure != std::errc() || rest != end || !(seconds >= 0.001 && seconds <= kYear)) {
    return error(hktInvalidUsage, "environment variable %s is %s: set it to seconds, from 0.001 to %.0f",
                 std::string(name).c_str(), in_quotes(*text).c_str(), kYear);
  }
  return std::llround(seconds * 1000);
}

void warn_unknown() {
  static std::once_flag once;
  std::call_once(once, warn_unknown_now);
}

}  // namespace hocket::env
