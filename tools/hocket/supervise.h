// Starts the programs of a job, hands on what they print, and sees to it that all of them end.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hocket::tool {

// One program to start: a rank, or the part of a job on another host.
struct Child {
  std::string name;                      // in messages: "rank 3", "host b"
  std::string prefix;                    // before each line that it prints
  std::string file;                      // what it prints is appended here instead, if not empty
  std::vector<std::string> command;      // looked up in PATH
  std::vector<std::string> environment;  // NAME=value, in addition
  bool leashed = false;                  // its standard input is a leash (see Leash), else /dev/null
};

// A leash is the standard input of the part of a job on another host: each byte is a signal to pass on; its end,
// however it comes about, ends that part. So no rank outlives a launcher that cannot reach it any more.
enum class Leash : uint8_t { none, standard_input };

struct JobEnd {
  int status = 0;   // of the first that failed: its exit status, or 128 + the signal that ended it; 0 if none did
  int failed = -1;  // index of that child
  int signal = 0;   // this process was told to end the job
};

// Runs all children to their end. After the first failure the others have 1.5 s to say what they know, then get
// SIGTERM, and SIGKILL 1.5 s later, with all processes that they have started. SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1 and SIGUSR2 are passed on; the first four end the job within 4 s. A child ends with this process even if that
// is killed by force. The failure and the last lines of whoever failed first go to stderr. Not for processes with
// threads.
Result<JobEnd> supervise(const std::vector<Child>& children, Leash leash);

}  // namespace hocket::tool
