// Threads of the library's own.
#pragma once

#include <pthread.h>

#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace hocket {

// Starts a thread that takes no signals: handlers of the program run on the program's own threads. `what` is it? "the
// rendezvous thread", for the error.
template <class Body>
Result<std::thread> start_thread(const char* what, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  std::string failure;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& e) {
    failure = e.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable()) return error(hktSystemError, "cannot start %s: %s (see ulimit -u)", what, failure.c_str());
  return thread;
}

}  // namespace hocket
