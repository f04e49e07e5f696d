#include "comm/thread.h"

#include <algorithm>

#include "base/deadline.h"
#include "comm/communicator.h"
#include "comm/progress.h"

namespace hocket {

constinit thread_local uint32_t attention = 0;

// A pointer, so that communicators may still be destroyed when the thread's own variables have been.
ThisThread& ThisThread::get() {
  static thread_local ThisThread* me = nullptr;
  struct Reaper {
    ~Reaper() {
      delete me;
      me = nullptr;
    }
  };
  if (me == nullptr) {
    static thread_local Reaper reaper;
    (void)reaper;
    me = new ThisThread;
  }
  return *me;
}

ThisThread::~ThisThread() {
  for (const Group::Entry& e : group.entries) e.gate->grouped.fetch_sub(1, std::memory_order_relaxed);
  for (Request* r : spare_) RequestTable::get().give_back(r);
  attention = 0;
}

void ThisThread::attend(const std::shared_ptr<Gate>& gate) {
  gate->thread.store(this, std::memory_order_relaxed);
  if (std::find(active_.begin(), active_.end(), gate) == active_.end()) active_.push_back(gate);
  update();
}

void ThisThread::settle(Gate& gate) {
  if (gate.outstanding != nullptr) {
    Communicator& comm = gate.outstanding->comm();
    if (!comm.settle()) {
      if (comm.parts().progress_thread) progress::attend(comm.gate());
      return;
    }
  }
  const auto at = std::find_if(active_.begin(), active_.end(), [&](const auto& g) { return g.get() == &gate; });
  if (at != active_.end()) active_.erase(at);
  gate.thread.store(nullptr, std::memory_order_relaxed);
  update();
}

// `body` for each communicator whose operations are this thread's; those that have none left go off the list.
template <class Body>
void ThisThread::visit_all(Body&& body) {
  for (size_t i = active_.size(); i-- > 0;) {
    Gate& gate = *active_[i];
    bool stays = true;
    {
      const Visit visit(gate);
      if (!visit.mine()) continue;
      stays = gate.outstanding != nullptr && gate.thread.load(std::memory_order_relaxed) == this;
      if (stays) {
        body(*gate.outstanding);
        stays = !gate.outstanding->comm().settle();
      }
    }
    if (!stays) active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  update();
}

bool ThisThread::progress() {
  bool moved = false;
  if (!active_.empty()) visit_all([&](Outstanding& o) { moved |= o.advance(); });
  return moved;
}

void ThisThread::check() {
  visit_all([](Outstanding& o) { o.check(); });
}

bool ThisThread::others(const Outstanding& own) const {
  return std::any_of(active_.begin(), active_.end(),
                     [&](const auto& gate) { return gate.get() != own.comm().gate().get(); });
}

Result<Request*> ThisThread::lease() {
  if (spare_.empty()) return RequestTable::get().lease();
  Request* const r = spare_.back();
  spare_.pop_back();
  return r;
}

void ThisThread::give_back(Request* request) {
  constexpr size_t kSpare = 64;
  request->id.store(0, std::memory_order_relaxed);
  request->gates.clear();
  request->reset();
  if (spare_.size() < kSpare)
    spare_.push_back(request);
  else
    RequestTable::get().give_back(request);
}

namespace {

Error no_request(const char* function, hktRequest_t handle) {
  if (handle == nullptr) return error(hktInvalidArgument, "%s: the request is null", function);
  return error(hktInvalidArgument,
               "%s: there is no such request: it has been finished by an earlier call, or was never handed out",
               function);
}

// The result of a request that is done, which is freed.
Status take(const char* function, Request* r) {
  Status result = r->result();
  const bool destroyed = std::any_of(r->gates.begin(), r->gates.end(),
                                     [](const auto& gate) { return gate->destroyed.load(std::memory_order_acquire); });
  ThisThread::get().give_back(r);
  if (destroyed && result.ok())
    return error(hktInvalidArgument, "%s: the request's communicator has been destroyed", function);
  return result;
}

// `body(operations)` inside the gate of a communicator that the request is about; nothing if they are all destroyed.
template <class Body>
Status inside(const char* function, const Request& r, Body&& body) {
  ThisThread& me = ThisThread::get();
  for (const std::shared_ptr<Gate>& gate : r.gates) {
    if (gate->destroyed.load(std::memory_order_acquire)) continue;
    const Busy busy(*gate);
    if (!busy.mine())
      return error(hktInvalidUsage,
                   "%s: another thread is in a call of the request's communicator; one at a time, or give each its own",
                   function);
    if (gate->outstanding == nullptr) continue;
    HKT_TRY(gate->outstanding->comm().admit_wait());
    me.attend(gate);
    for (const auto& other : r.gates)
      if (other != gate) me.attend(other);
    body(*gate->outstanding);
    me.settle(*gate);
    return {};
  }
  return {};
}

}  // namespace

Status test_request(hktRequest_t handle, bool& done) {
  constexpr const char* kName = "hktRequestTest";
  Request* const r = RequestTable::get().find(handle);
  done = false;
  if (r == nullptr) return no_request(kName, handle);
  if (!r->done())
    HKT_TRY(inside(kName, *r, [&](Outstanding& o) {
      (void)o.advance();
      (void)ThisThread::get().progress();
      o.check_now_and_then();
    }));
  done = r->done();
  return done ? take(kName, r) : Status();
}

Status wait_request(hktRequest_t handle, bool& done) {
  constexpr const char* kName = "hktRequestWait";
  Request* const r = RequestTable::get().find(handle);
  done = false;
  if (r == nullptr) return no_request(kName, handle);
  if (!r->done()) HKT_TRY(inside(kName, *r, [&](Outstanding& o) { o.wait([&] { return r->done(); }); }));
  done = true;
  return take(kName, r);
}

void group_fail(const Error& e) {
  if ((attention) == 0) return;
  Group& group = ThisThread::get().group;
  if (group.depth != 0 && group.failure.text.empty()) group.failure = e;
}

namespace {

// Gives the calls of a group back when it ends.
class Closed {
 public:
  explicit Closed(Group& group) : failure(std::move(group.failure)), entries(std::move(group.entries)) {
    group.failure = Error{};
    group.entries.clear();
    for (const Group::Entry& e : entries) e.gate->grouped.fetch_sub(1, std::memory_order_relaxed);
  }
  Error failure;
  std::vector<Group::Entry> entries;
};

}  // namespace

Status group_end(hktRequest_t* request) {
  ThisThread& me = ThisThread::get();
  if (me.group.depth == 0) return error(hktInvalidUsage, "hktGroupEnd: no group is open in this thread");
  if (me.group.depth > 1 && request != nullptr)
    return error(hktInvalidUsage, "hktGroupEnd: only the outermost one can hand out a request");
  --me.group.depth;
  me.update();
  if (me.group.depth != 0) return {};
  Closed group(me.group);
  if (!group.failure.text.empty())
    return error(group.failure.code, "hktGroupEnd: nothing of the group was issued, for a call in it failed: %s",
                 group.failure.text.c_str());

  HKT_ASSIGN(Request* const r, me.lease());
  for (const Group::Entry& e : group.entries)
    if (std::find(r->gates.begin(), r->gates.end(), e.gate) == r->gates.end()) r->gates.push_back(e.gate);
  std::deque<Busy> busy;
  for (const Group::Entry& e : group.entries) {
    const auto place = std::find(r->gates.begin(), r->gates.end(), e.gate) - r->gates.begin();
    if (static_cast<size_t>(place) < busy.size()) continue;
    busy.emplace_back(*e.gate);
    if (Status s = e.comm->admit(busy.back().mine()); !s.ok()) {
      me.give_back(r);
      return error(s.error().code, "hktGroupEnd: nothing of the group was issued: %s", s.error().text.c_str());
    }
  }
  r->expect(static_cast<uint32_t>(group.entries.size()));
  for (Group::Entry& e : group.entries) e.comm->outstanding().submit(std::move(e.task), *r);
  for (const auto& gate : r->gates) {
    (void)gate->outstanding->advance();
    me.attend(gate);
    me.settle(*gate);
  }
  busy.clear();
  const hktRequest_t handle = RequestTable::publish(*r);
  if (request != nullptr) {
    *request = handle;
    return {};
  }
  bool done = false;
  return wait_request(handle, done);
}

}  // namespace hocket
