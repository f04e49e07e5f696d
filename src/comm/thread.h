// ThisThread: what a thread has outstanding on all its communicators, and its open group. Whoever waits for one thing
// moves all of it, so waits of different ranks in crossed order do not wait for each other.
#pragma once

#include <memory>
#include <vector>

#include "comm/busy.h"
#include "comm/outstanding.h"
#include "comm/request.h"

namespace hocket {

// Not 0: calls of this thread have more to do than run: there are operations outstanding, or a group is open. Read on
// the hot path, hence without a function call: 4 bytes of the static thread-local storage that the loader keeps for
// libraries that are loaded late.
extern constinit thread_local uint32_t attention __attribute__((tls_model("initial-exec")));

// Calls that are collected between hktGroupStart and the outermost hktGroupEnd.
struct Group {
  struct Entry {
    std::shared_ptr<Gate> gate;
    Communicator* comm;  // not destroyed while the group is open: gate->grouped
    Task task;
  };
  uint32_t depth = 0;
  Error failure;  // the first error of a call in it; text is empty: none
  std::vector<Entry> entries;
};

class ThisThread {
 public:
  static ThisThread& get();
  ThisThread() = default;
  ~ThisThread();
  ThisThread(const ThisThread&) = delete;
  ThisThread& operator=(const ThisThread&) = delete;

  // What is outstanding on this communicator is moved by this thread from now on. Its gate is entered.
  void attend(const std::shared_ptr<Gate>& gate);
  // No longer, if nothing is left. Its gate is entered.
  void settle(Gate& gate);
  // Moves what can be moved on all communicators but those that are in a call: true if anything moved.
  bool progress();
  void check();
  bool others(const Outstanding& own) const;

  // Requests, without a lock as long as a thread gives back as many as it takes.
  Result<Request*> lease();
  void give_back(Request* request);

  Group group;
  void update() { attention = static_cast<uint32_t>(active_.size()) + group.depth; }

 private:
  template <class Body>
  void visit_all(Body&& body);

  std::vector<std::shared_ptr<Gate>> active_;
  std::vector<Request*> spare_;
};

// --- what callers do with handles and groups. Errors name the function.

// `done`: the request is over and freed, and this was its result. Else it is not done yet (test), or the call itself
// was wrong and nothing has happened.
Status test_request(hktRequest_t handle, bool& done);
Status wait_request(hktRequest_t handle, bool& done);

inline void group_start() {
  ThisThread& me = ThisThread::get();
  ++me.group.depth;
  me.update();
}
// A call in the open group has failed: so will the group.
void group_fail(const Error& e);
// `request` null: waits.
Status group_end(hktRequest_t* request);

}  // namespace hocket
