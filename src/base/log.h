// Log lines: "host:pid rank/nranks LEVEL text". Level from HOCKET_DEBUG (WARN by default), subsystems from
// HOCKET_DEBUG_SUBSYS, file from HOCKET_DEBUG_FILE (%h host, %p pid). Any thread; a line is one write. Never called on
// a steady-state path.
#pragma once

#include <cstdint>
#include <string>

namespace hocket {

enum class LogLevel : uint8_t { none = 0, error = 1, warn = 2, info = 3, trace = 4 };
enum class Subsys : uint8_t { init = 1, coll = 2, net = 4, shm = 8, tune = 16, env = 32 };

// Who speaks: kept by each communicator; rank -1 before it is known.
struct LogId {
  int rank = -1;
  int nranks = 0;
};

// The name of this host, cut to 64 bytes; "unknown" if it has none.
std::string host_name();

// Errors and warnings are written whatever their subsystem; HOCKET_DEBUG_SUBSYS filters INFO and TRACE.
bool log_enabled(LogLevel level, Subsys subsys);
void log_write(LogLevel level, LogId id, const char* format, ...) __attribute__((format(printf, 3, 4)));

#define HKT_LOG(level, subsys, id, ...)                                             \
  do {                                                                              \
    if (::hocket::log_enabled(::hocket::LogLevel::level, ::hocket::Subsys::subsys)) \
      ::hocket::log_write(::hocket::LogLevel::level, id, __VA_ARGS__);              \
  } while (0)
#define HKT_WARN(subsys, id, ...) HKT_LOG(warn, subsys, id, __VA_ARGS__)
#define HKT_INFO(subsys, id, ...) HKT_LOG(info, subsys, id, __VA_ARGS__)
#define HKT_TRACE(subsys, id, ...) HKT_LOG(trace, subsys, id, __VA_ARGS__)

}  // namespace hocket
