// Starts the programs of a job, hands on what they print, and sees to it that all of them end.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hocket::tool {

// A leash is the standard input of the part of a job on another host. First comes what is in `settings`; then each byte
// is a signal to pass on; its end, however it comes about, ends that part. So no rank outlives a launcher that cannot
// reach it any more.
//
// The part there tells how it fares by lines of its standard error that begin with `mark`: a program between the two
// (ssh, srun) may end with any status, its own or the program's. A part that has not told its end is lost.
struct Leash {
  std::string mark;                   // "": no leash
  std::vector<std::string> settings;  // NAME=value to set there, NAME to unset
  explicit operator bool() const { return !mark.empty(); }
};

// One program to start: a rank, or the part of a job on another host.
struct Child {
  std::string name;                      // in messages: "rank 3", "host b"
  std::string prefix;                    // before each line that it prints
  std::string file;                      // what it prints is appended here instead, if not empty
  std::vector<std::string> command;      // looked up in PATH
  std::vector<std::string> environment;  // NAME=value, in addition
  Leash leash = {};                      // of a part; a rank has none, and /dev/null as its standard input
};

struct JobEnd {
  int status = 0;         // of the first that failed: its exit status, or 128 + the signal that ended it; 0 if none did
  int failed = -1;        // index of that child
  int signal = 0;         // this process was told to end the job
  std::vector<int> lost;  // indices of parts that have not told their end
};

// On another host: takes the settings that come over the leash into the environment. hktRemoteError if it ends before.
Result<Leash> take_leash();
// On another host: the last word of a part that held `leash`.
void tell_end(const Leash& leash, int status);

// Runs all children to their end. After the first failure the others have 1.5 s to say what they know, then get
// SIGTERM, and SIGKILL 1.5 s later, with all processes that they have started. SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1 and SIGUSR2 are passed on; the first four end the job within 4 s, also while nobody reads what is printed
// (what has not been read by then is dropped). A process that 5 s of SIGKILL do not end is named and left behind. A
// child ends with this process even if that is killed by force. The failure and the last lines of whoever failed first
// go to stderr. Parts have 1 s more, to tell their end. `leash` is the one that this process is on, if any. Not for
// processes with threads.
Result<JobEnd> supervise(const std::vector<Child>& children, const Leash& leash = {});

}  // namespace hocket::tool
