#include "comm/watch.h"

#include <algorithm>
#include <ctime>

#include "algorithms/catalog.h"
#include "base/deadline.h"
#include "base/types.h"
#include "comm/operations.h"
#include "schedule/collective.h"

namespace hocket {
namespace {

constexpr int64_t kWarnAfter = 10'000'000'000;   // ns of waiting
constexpr int64_t kSecondWord = 500'000'000;     // ns after a deadline for ranks that know more to speak first
constexpr uint64_t kRemembered = 64;             // calls that transports know of each rank
constexpr int64_t kDiagnoseFor = 1'000'000'000;  // ns to collect the calls of all ranks before naming the odd one out

void nap(int64_t ns) {
  const timespec t{0, ns};
  nanosleep(&t, nullptr);
}

// "rank 2", "ranks 1, 3 and 5"
std::string ranks(const std::vector<int>& list) {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == 8 && list.size() > 10) return text + format(" and %zu more", list.size() - i);
    if (i > 0) text += i + 1 == list.size() ? " and " : ", ";
    text += std::to_string(list[i]);
  }
  return text;
}

}  // namespace

std::string describe(const CallRecord& call) {
  switch (static_cast<Meeting>(call.collective)) {
    case Meeting::split:
      return "split()";
    case Meeting::dup:
      return "dup()";
    case Meeting::finalize:
      return "finalize()";
    case Meeting::memory:
      return "register_memory()";
    case Meeting::all_to_all_v:
      return format("all_to_all_v(%s)", type_name(static_cast<hktDataType_t>(call.type)));
    case Meeting::gather_v:
    case Meeting::scatter_v:
      return format("%s(%s, root %u)",
                    static_cast<Meeting>(call.collective) == Meeting::gather_v ? "gather_v" : "scatter_v",
                    type_name(static_cast<hktDataType_t>(call.type)), call.root);
    case Meeting::all_reduce_list:
      return format("all_reduce_list(%u buffers, count %llu, %s, table %08x, %s)", call.root,
                    static_cast<unsigned long long>(call.count), type_name(static_cast<hktDataType_t>(call.type)),
                    call.table, operation_name(call.op).c_str());
  }
  if (call.collective >= kCollectives) return "an unknown collective";
  const auto collective = static_cast<Collective>(call.collective);
  const bool blocks = call.table != 0;
  std::string text = std::string(collective_name(collective)) + (blocks ? "_v(" : "(");
  if (collective != Collective::barrier)
    text += format("count %llu%s, %s", static_cast<unsigned long long>(call.count), blocks ? " in all" : "",
                   type_name(static_cast<hktDataType_t>(call.type)));
  if (blocks) text += format(", table %08x", call.table);
  if (reduces(collective)) text += ", " + operation_name(call.op);
  if (is_rooted(collective)) text += format(", root %u", call.root);
  return text + ")";
}

Error Watch::fail(const Fault& fault) {
  Fault kept = fault;
  {
    const MutexLock lock(mutex_);
    if (first_.code == hktSuccess)
      first_ = fault;
    else
      kept = first_;
  }
  // Told before any call of this rank returns, for then its buffers are its program's again: what a peer has read of
  // them until it finds no fault is what was sent (confirm()).
  for (const auto& t : parts_.transports) t->raise(kept);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  code_.store(kept.code, std::memory_order_release);
  return {kept.code, kept.text};
}

Error Watch::failed_before() const {
  const MutexLock lock(mutex_);
  return {first_.code, first_.text + " (the communicator had failed before this call)"};
}

Error Watch::failed_meanwhile() const {
  const MutexLock lock(mutex_);
  return {first_.code, first_.text};
}

void Watch::abort() {
  aborted_.store(true, std::memory_order_relaxed);
  (void)fail({hktAborted, parts_.rank, 0, format("rank %d called hktCommAbort", parts_.rank)});
  if (parts_.bell != nullptr) parts_.bell->wake();
}

std::optional<Fault> Watch::find_fault() {
  for (const auto& t : parts_.transports)
    if (auto f = t->fault()) return f;
  return std::nullopt;
}

// A rank tells of its fault before it returns from the call, and its memory is its program's again only then.
Status Watch::confirm() {
  // Acquire: what was read is older than what is found now.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (failed()) return failed_meanwhile();
  if (auto f = find_fault()) return fail(*f);
  return {};
}

Status Watch::look() {
  if (failed()) return failed_before();
  for (const auto& t : parts_.transports)
    if (t->pumped()) t->progress();
  if (auto f = find_fault()) return fail(*f);
  return compare();
}

std::string Watch::present_call() const {
  return format("call %llu, %s", static_cast<unsigned long long>(call_.seq), describe(call_).c_str());
}

Status Watch::compare() {
  if (failed()) return failed_before();
  if (mismatch_seen({})) return fail(diagnose_mismatch({}));
  return {};
}

bool Watch::has_left(int peer, const Waiting& waiting) {
  const Transport* t = parts_.route[static_cast<size_t>(peer)];
  if (t == nullptr || !t->left(peer)) return false;
  const Blocked still = waiting.blocked();  // looked at after left(): what had come before is there
  return !find_fault() && !mismatch_seen(still) && std::binary_search(still.peers.begin(), still.peers.end(), peer);
}

std::optional<CallRecord> Watch::record_of(int rank, uint64_t seq) const {
  if (rank == parts_.rank && seq == call_.seq) return call_;
  const Transport* const t = rank != parts_.rank         ? parts_.route[static_cast<size_t>(rank)]
                             : parts_.transports.empty() ? nullptr
                                                         : parts_.transports.front().get();
  return t == nullptr ? std::nullopt : t->announced(rank, seq);
}

// Not the present call alone: one that has nothing to wait for is over before anybody sees that it does not match.
uint64_t Watch::first_mismatch() {
  const uint64_t oldest = call_.seq > kRemembered ? call_.seq - kRemembered : 0;
  compared_ = std::max(compared_, oldest);
  for (uint64_t seq = compared_ + 1; seq <= call_.seq; ++seq) {
    const auto mine = record_of(parts_.rank, seq);
    bool all = mine.has_value();
    for (int p = 0; p < parts_.nranks && mine; ++p) {
      const auto theirs = record_of(p, seq);
      if (theirs && !same_call(*theirs, *mine)) return seq;
      all = all && theirs;
    }
    if (all && seq == compared_ + 1) compared_ = seq;
  }
  return 0;
}

bool Watch::mismatch_seen(const Blocked& blocked) { return !blocked.mismatched.empty() || first_mismatch() != 0; }

Status Watch::check(const Waiting& waiting) {
  if (failed()) return failed_before();
  if (auto f = find_fault()) return fail(*f);
  const Blocked blocked = waiting.blocked();
  if (mismatch_seen(blocked)) return fail(diagnose_mismatch(blocked));

  for (const int p : blocked.peers) {
    if (has_left(p, waiting))
      return fail({hktRemoteError, p, call_.seq,
                   format("rank %d has destroyed its communicator, but rank %d waits for it in %s", p, parts_.rank,
                          describe(call_).c_str())});
  }

  const int64_t now = now_ns();
  if (started_ns_ == 0) {
    started_ns_ = now;
    warned_ = false;
  }
  const int64_t waited = now - started_ns_;
  if (!warned_ && waited >= kWarnAfter) {
    warned_ = true;
    HKT_WARN(coll, log_, "%s%s%s, call %llu, has been waiting for 10 s for %s", label_ != nullptr ? label_ : "",
             label_ != nullptr ? ": " : "", describe(call_).c_str(), static_cast<unsigned long long>(call_.seq),
             waited_for(blocked).c_str());
  }
  if (timeout_ms_ < 0 || waited / 1'000'000 < timeout_ms_) return {};
  // Whoever waits for a rank that is late itself gives others, who may know the one that all wait for, the first word.
  const std::vector<int> late = not_called(blocked);
  if (late.empty() && !blocked.peers.empty() && waited < timeout_ms_ * 1'000'000 + kSecondWord) return {};
  return fail(
      {hktTimeout, late.empty() ? -1 : late.front(), call_.seq,
       format("%s%s%s, call %llu on rank %d, timed out after %lld ms waiting for %s", label_ != nullptr ? label_ : "",
              label_ != nullptr ? ": " : "", describe(call_).c_str(), static_cast<unsigned long long>(call_.seq),
              parts_.rank, static_cast<long long>(timeout_ms_), waited_for(blocked).c_str())});
}

// The ranks that hold everybody up, as far as this rank knows: those that have announced something and not yet this
// call, and those waited for that have announced nothing.
std::vector<int> Watch::not_called(const Blocked& blocked) const {
  std::vector<int> late;
  for (int p = 0; p < parts_.nranks; ++p) {
    const Transport* t = parts_.route[static_cast<size_t>(p)];
    if (t == nullptr) continue;
    const auto last = t->announced(p, 0);
    const bool waited = std::binary_search(blocked.peers.begin(), blocked.peers.end(), p);
    if (last ? last->seq < call_.seq : waited) late.push_back(p);
  }
  return late;
}

std::string Watch::waited_for(const Blocked& blocked) const {
  if (blocked.peers.empty()) return "its own data to leave";
  const std::vector<int> late = not_called(blocked);
  if (late.empty()) return ranks(blocked.peers) + ", which made the same call";
  std::string text = ranks(late);
  for (const int p : late) {
    const auto last = parts_.route[static_cast<size_t>(p)]->announced(p, 0);
    text += last ? format("; rank %d's last call is %llu, %s", p, static_cast<unsigned long long>(last->seq),
                          describe(*last).c_str())
                 : format("; rank %d has called nothing yet", p);
    if (text.size() > 100) break;  // a fault carries 200 bytes to the other ranks
  }
  return text;
}

Fault Watch::diagnose_mismatch(const Blocked& blocked) {
  // Collect what every rank has called; some may be on their way into the call. Whoever has finished diagnosing wins.
  uint64_t seq = call_.seq;
  const int64_t until = now_ns() + kDiagnoseFor;
  std::vector<std::optional<CallRecord>> records(static_cast<size_t>(parts_.nranks));
  for (bool complete = false; !complete && now_ns() < until;) {
    if (const uint64_t first = first_mismatch(); first != 0 && first != seq) {
      seq = first;
      records.assign(records.size(), std::nullopt);
    }
    complete = true;
    for (int p = 0; p < parts_.nranks; ++p) {
      auto& r = records[static_cast<size_t>(p)];
      if (!r) r = record_of(p, seq);
      complete = complete && r.has_value();
    }
    if (complete) break;
    if (auto f = find_fault()) return *f;
    nap(1'000'000);
    for (const auto& t : parts_.transports)
      if (t->pumped()) t->progress();
  }
  // Group equal calls; the largest group is right, the others are odd.
  std::vector<std::pair<CallRecord, std::vector<int>>> groups;
  for (int p = 0; p < parts_.nranks; ++p) {
    const auto& r = records[static_cast<size_t>(p)];
    if (!r) continue;
    auto g = groups.begin();
    while (g != groups.end() && !same_call(g->first, *r)) ++g;
    if (g == groups.end()) g = groups.insert(g, {*r, {}});
    g->second.push_back(p);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  Fault f{hktMismatch, -1, seq, format("call %llu does not match: ", static_cast<unsigned long long>(seq))};
  for (size_t i = 0; i < groups.size() && f.text.size() < 160; ++i)
    f.text += format("%s%s called %s", i == 0 ? "" : ", ", ranks(groups[i].second).c_str(),
                     describe(groups[i].first).c_str());
  if (groups.size() >= 2) {
    f.rank = groups.back().second.front();
  } else if (!blocked.mismatched.empty()) {
    f.rank = blocked.mismatched.front();
    f.text += format("; %s sent a message of another call", ranks(blocked.mismatched).c_str());
  }
  return f;
}

}  // namespace hocket
