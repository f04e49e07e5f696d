#include "base/log.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/env.h"
#include "base/result.h"
#include "base/text.h"

namespace hocket {
namespace {

constexpr const char* kLevels[] = {"NONE", "ERROR", "WARN", "INFO", "TRACE"};
struct SubsysName {
  const char* name;
  unsigned bits;
};
constexpr SubsysName kSubsystems[] = {{"INIT", 1},  {"COLL", 2}, {"NET", 4},  {"SHM", 8},
                                      {"TUNE", 16}, {"ENV", 32}, {"ALL", ~0u}};

bool same_word(std::string_view a, const char* b) {
  return a.size() == std::strlen(b) && strncasecmp(a.data(), b, a.size()) == 0;
}

void write_line(int fd, const std::string& line) {
  // One write for the whole line, so that lines of several processes do not mix. If it fails nobody can be told.
  ssize_t n = 0;
  do {
    n = write(fd, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
}

std::string line_of(LogLevel level, LogId id, std::string_view text) {
  std::string line = host_name() + ":" + std::to_string(getpid());
  line += id.rank < 0 ? " -/-" : " " + std::to_string(id.rank) + "/" + std::to_string(id.nranks);
  line += " ";
  line += kLevels[static_cast<int>(level)];
  line += " ";
  line += text;
  line += "\n";
  return line;
}

std::string expand(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view two = pattern.substr(i, 2);
    if (two == "%h") {
      out += host_name();
    } else if (two == "%p") {
      out += std::to_string(getpid());
    } else {
      out += pattern[i];
      continue;
    }
    ++i;
  }
  return out;
}

// Where and what to log: read from the environment once, at the first line. Never destroyed, because threads may log
// while the process exits.
struct Settings {
  LogLevel level = LogLevel::warn;
  unsigned subsystems = ~0u;
  int fd = STDERR_FILENO;

  Settings() {
    if (const auto file = env::get("HOCKET_DEBUG_FILE")) open_file(expand(*file));
    if (const auto word = env::get("HOCKET_DEBUG")) read_level(*word);
    if (const auto list = env::get("HOCKET_DEBUG_SUBSYS")) read_subsystems(*list);
  }

  void complain(const std::string& text) const { write_line(fd, line_of(LogLevel::warn, LogId{}, text)); }

  void open_file(const std::string& path) {
    const int opened = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (opened >= 0) {
      fd = opened;
    } else {
      complain(sys_error("HOCKET_DEBUG_FILE: cannot open %s, logging to standard error", in_quotes(path).c_str()).text);
    }
  }

  void read_level(std::string_view word) {
    for (int i = 0; i < 5; ++i) {
      if (!same_word(word, kLevels[i])) continue;
      level = static_cast<LogLevel>(i);
      return;
    }
    complain("environment variable HOCKET_DEBUG is " + in_quotes(word) +
             ": set it to one of NONE, ERROR, WARN, INFO, TRACE (WARN is used)");
  }

  void read_subsystems(std::string_view list) {
    const bool invert = list.substr(0, 1) == "^";
    if (invert) list.remove_prefix(1);
    unsigned found = 0;
    while (!list.empty()) {
      const size_t comma = list.find(',');
      const std::string_view word = list.substr(0, comma);
      list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
      std::optional<unsigned> bits;
      for (const SubsysName& subsystem : kSubsystems) {
        if (same_word(word, subsystem.name)) bits = subsystem.bits;
      }
      if (!bits) {
        complain("environment variable HOCKET_DEBUG_SUBSYS names " + in_quotes(word) +
                 ": known are INIT, COLL, NET, SHM, TUNE, ENV, ALL (the setting is ignored)");
        return;
      }
      found |= *bits;
    }
    subsystems = invert ? ~found : found;
  }
};

const Settings& settings() {
  static const Settings* const kSettings = new Settings;
  return *kSettings;
}

}  // namespace

std::string host_name() {
  char name[65] = {};
  if (gethostname(name, sizeof name - 1) != 0 && errno != ENAMETOOLONG) return "unknown";
  return name[0] == '\0' ? "unknown" : name;
}

bool log_enabled(LogLevel level, Subsys subsys) {
  const Settings& s = settings();
  if (level > s.level || level == LogLevel::none) return false;
  return level <= LogLevel::warn || (s.subsystems & static_cast<unsigned>(subsys)) != 0;
}

void log_write(LogLevel level, LogId id, const char* format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  const int n = std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n < 0) return;
  const bool cut = static_cast<size_t>(n) >= sizeof text;
  write_line(settings().fd, line_of(level, id, one_line(text, sizeof text) + (cut ? "..." : "")));
}

}  // namespace hocket
