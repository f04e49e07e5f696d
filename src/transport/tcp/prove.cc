// The job's secret at the ports of ranks: what Port and Connector do before the first hello of a connection
// (base/proof.h).
#include <cstring>

#include "base/deadline.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/fault_frame.h"
#include "transport/tcp/port.h"

namespace hocket::tcp {
namespace {

static_assert(sizeof(Hello) + sizeof(Header) + kMaxControl <= Handshake::kMaxSealed);

}  // namespace

void Port::ask_for_proof(Stray& s) {
  if (config_.secret == nullptr) return;
  const std::string_view plain(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  s.proof = Handshake::accepting(config_.secret, "the process at " + s.peer.text(), plain, &seen_);
}

// True once its hello may be read; until then `step` says what becomes of it.
bool Port::prove(Stray& s, Step* step) {
  if (!s.proof) return true;
  const size_t before = s.proof->expects();
  const Result<bool> proven = s.proof->advance(s.fd.get());
  // This rank may have come from a long computation: the other side has its time from the answer on.
  if (s.proof->expects() != before) s.since = now_ns();
  if (!proven) {
    if (proven.error().code == hktInvalidUsage)
      tell_of_refusal(proven.error().text);
    else
      drop(s, proven.error().text.c_str());
    *step = Step::gone;
    return false;
  }
  if (!proven.value()) {
    *step = Step::keep;
    return false;
  }
  const std::string sealed = s.proof->sealed();
  s.proof.reset();
  if (sealed.empty()) return true;
  Hello hello;
  *step = Step::gone;
  if (sealed.size() >= sizeof hello) std::memcpy(&hello, sealed.data(), sizeof hello);
  if (sealed.size() < sizeof hello || sealed.size() > sizeof hello + sizeof(Header) + kMaxControl ||
      hello.purpose != static_cast<uint32_t>(Purpose::tell)) {
    drop(s, "what it sealed is not of a fault");
    return false;
  }
  std::memcpy(s.bytes.data(), sealed.data(), sizeof hello);
  s.got = sizeof hello;
  s.early = sealed.substr(sizeof hello);
  return true;
}

void Port::tell_of_refusal(const std::string& why) {
  if (refusals_ < kRefusalsToldOf) {
    ++refusals_;
    HKT_WARN(net, config_.log, "refused a connection: %s", why.c_str());
  } else {
    HKT_INFO(net, config_.log, "refused a connection: %s", why.c_str());
  }
}

// In a job without a secret: somebody with one gets to know that.
bool Port::tell_of_secret(const Stray& s) {
  const std::string_view said(reinterpret_cast<const char*>(s.bytes.data()), s.got);
  if (s.proof || !is_of_secret(said)) return false;
  const std::string answer = no_secret_here();
  (void)send_some(s.fd.get(), answer.data(), answer.size()).ok();
  tell_of_refusal("the process at " + s.peer.text() + " has a job secret, and this process has none");
  return true;
}

Connector::Step Connector::prove(Pending& p, Events& events) {
  Dial* const d = find_dial(p.rank);
  if (d == nullptr || !p.proof) return Step::drop;
  const Result<bool> proven = p.proof->advance(p.fd.get());
  if (proven && !proven.value()) return Step::keep;
  if (proven) {
    p.proof.reset();
    return introduce(p, *d);
  }
  if (proven.error().code == hktInvalidUsage) {
    events.failed.push_back({p.rank, proven.error()});
    return Step::failed;
  }
  note_failure(p.rank, p.peer, proven.error().text);
  // A rank that is far from its next call lets go of who has not said hello for long, and watching goes on by another
  // connection. If it is this rank that has been far, what it connects to has shown itself, or had let go before it
  // could. If the process has ended, another connection cannot be made.
  if (d->purpose == Purpose::watch || p.late || p.proof->other_is_known()) start_again(*d);
  return Step::drop;
}

}  // namespace hocket::tcp
