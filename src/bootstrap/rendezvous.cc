#include "bootstrap/rendezvous.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/callback_store.h"
#include "bootstrap/file_store.h"
#include "bootstrap/launcher_store.h"
#include "bootstrap/rank_table/agree.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

constexpr const char* kJob = "job";    // job/0: what rank 0 says of its job
constexpr const char* kCard = "card";  // card/r: who rank r is
constexpr const char* kMet = "met/0";  // rank 0 has compared the cards of all
constexpr int kFarewellMs = 5000;

std::string card_key(int rank) { return Store::Series{kCard}.key(rank); }
std::vector<std::string> all_cards(int nranks) { return Store::Series{kCard, nranks}.keys(); }

std::string version_text(uint32_t version) {
  return format("%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
}

Result<SharedSecret> secret_of(const RendezvousOptions& options) {
  if (options.secret) return SharedSecret(*options.secret);
  return Secret::from_environment();
}

std::string seconds(int64_t ns) { return format("%.3g s", static_cast<double>(ns) / 1e9); }

}  // namespace

// What every rank tells all others first. The version comes first in every version; of another version's card nothing
// else is read.
struct Rendezvous::Card {
  uint32_t version = 0;
  int32_t rank = 0;
  int32_t nranks = 0;
  int64_t pid = 0;
  uint64_t token = 0;  // random: tells two processes with one rank apart
  uint64_t table = 0;  // digest of its rank table; 0: none
  std::string host;    // its name, for messages
  std::string proof;   // that it knows the secret of the job, for stores without a server that asks; "" without one

  // What is proven.
  std::string claim() const {
    return wire::Writer().raw("hocket rank").u32(static_cast<uint32_t>(rank)).u64(token).take();
  }
  std::string pack() const {
    return wire::Writer()
        .u32(version)
        .u32(static_cast<uint32_t>(rank))
        .u32(static_cast<uint32_t>(nranks))
        .u64(static_cast<uint64_t>(pid))
        .u64(token)
        .u64(table)
        .bytes(host)
        .bytes(proof)
        .take();
  }
  bool unpack(const std::string& bytes, uint32_t expected_version) {
    wire::Reader in(bytes);
    version = in.u32();
    if (!in.ok() || version != expected_version) return in.ok();
    rank = static_cast<int32_t>(in.u32());
    nranks = static_cast<int32_t>(in.u32());
    pid = static_cast<int64_t>(in.u64());
    token = in.u64();
    table = in.u64();
    host = one_line(in.bytes(), 64);
    proof = in.bytes();
    return in.done();
  }
};

Rendezvous::Rendezvous(int nranks, int rank, SharedSecret secret, Deadline deadline)
    : rank_(rank), nranks_(nranks), start_ns_(now_ns()), deadline_(deadline), secret_(std::move(secret)) {}

Rendezvous::~Rendezvous() {
  if (store_ != nullptr) fail(error(hktRemoteError, "rank %d of %d gave up during bring-up", rank_, nranks_));
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const Identity& me, Deadline deadline,
                                                     const RendezvousOptions& options) {
  HKT_ASSIGN(const SharedSecret secret, secret_of(options));
  if (me.url.empty()) {
    Identity known = me;  // with what only the launcher knows
    HKT_ASSIGN(std::unique_ptr<Store> store, open_launcher_store(known, secret, deadline));
    return open_with([&]() { return Result<std::unique_ptr<Store>>(std::move(store)); },
                     std::unique_ptr<Rendezvous>(new Rendezvous(known.nranks, known.rank, secret, deadline)),
                     {options.version});
  }
  HKT_TRY(check_rank(me.rank, me.nranks));
  // Who only comes to say that it cannot come does not wait for long.
  const Deadline until = me.refusal ? earlier(deadline, Deadline::in_ms(kFarewellMs)) : deadline;
  const auto open_store = [&]() -> Result<std::unique_ptr<Store>> {
    const std::string_view url = me.url;
    if (url.substr(0, 7) == "file://") {
      return open_file_store(std::string(url.substr(7)), me.rank, me.nranks, until);
    }
    if (url.substr(0, 6) != "tcp://") {
      return error(hktInternalError, "no rendezvous at %s: parse_url makes tcp:// and file:// of all",
                   in_quotes(url).c_str());
    }
    HKT_ASSIGN(const HostPort where, parse_host_port(url.substr(6)));
    const std::string note = me.note.empty() ? "" : " (" + me.note + ")";
    const TcpMember member{me.rank, me.nranks, 0, "rank 0 at " + me.url + note, secret, false, options.wire_version};
    if (me.rank != 0) return join_tcp_store(where, member, until);
    Result<std::unique_ptr<Store>> made = host_tcp_store(where, member, until);
    if (!made) made.error().text += note;
    return made;
  };
  std::unique_ptr<Rendezvous> made(new Rendezvous(me.nranks, me.rank, secret, deadline));
  if (me.refusal) {
    Result<std::unique_ptr<Store>> store = open_store();
    if (store) {
      made->store_ = std::move(*store);
      made->fail(*me.refusal);
    }
    return *me.refusal;
  }
  return open_with(open_store, std::move(made), {options.version, me.table.get()});
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const hktUniqueId& id, int nranks, int rank, Deadline deadline,
                                                     const RendezvousOptions& options) {
  HKT_TRY(check_rank(rank, nranks));
  HKT_ASSIGN(const SharedSecret secret, secret_of(options));
  HKT_ASSIGN(const Contact content, read_unique_id(id));
  const TcpMember member{rank,
                         nranks,
                         content.nonce,
                         "the process that made the unique id (" + content.addresses.front().text() + ")",
                         secret,
                         false,
                         options.wire_version};
  return open_with([&]() { return join_tcp_store([&]() -> Result<Contact> { return content; }, member, deadline); },
                   std::unique_ptr<Rendezvous>(new Rendezvous(nranks, rank, secret, deadline)), {options.version});
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const hktStore_t& store, int nranks, int rank, Deadline deadline,
                                                     const RendezvousOptions& options) {
  HKT_TRY(check_rank(rank, nranks));
  HKT_ASSIGN(const SharedSecret secret, secret_of(options));
  return open_with([&]() { return make_callback_store(store); },
                   std::unique_ptr<Rendezvous>(new Rendezvous(nranks, rank, secret, deadline)), {options.version});
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open_with(const OpenStore& open_store,
                                                          std::unique_ptr<Rendezvous> rendezvous, const Facts& facts) {
  HKT_ASSIGN(rendezvous->store_, open_store());
  HKT_TRY(rendezvous->meet(facts));
  HKT_INFO(init, (LogId{rendezvous->rank_, rendezvous->nranks_}), "rendezvous: all ranks met within %s",
           seconds(now_ns() - rendezvous->start_ns_).c_str());
  return rendezvous;
}

// Rank 0 says what the job is and compares what all say of themselves; the others ask twice: what the job is, and
// whether all belong to it. So this costs few bytes however many ranks there are.
Status Rendezvous::meet(const Facts& facts) {
  const uint64_t digest = facts.table == nullptr ? 0 : facts.table->digest;
  HKT_ASSIGN(const uint64_t token, random_bits());
  Card mine{facts.version, rank_, nranks_, getpid(), token, digest, host_name(), ""};
  if (secret_ != nullptr) {
    HKT_ASSIGN(const Secret::Mac proof, secret_->mac(mine.claim()));
    mine.proof.assign(proof.data(), proof.size());
  }
  Result<Store::Found> job = Store::Found();
  if (rank_ == 0) {
    HKT_ASSIGN(nonce_, random_bits());
    const std::string say = wire::Writer().u32(facts.version).u32(static_cast<uint32_t>(nranks_)).u64(nonce_).take();
    Status put = store_->put(card_key(0), mine.pack());
    if (put.ok()) put = store_->put(Store::Series{kJob}.key(0), say);
    if (!put.ok()) job = std::move(put.error());
  } else {
    job = store_->exchange(card_key(rank_), mine.pack(), Store::Series{kJob}, deadline_);
  }
  if (!job && job.error().code == hktInvalidUsage) {
    // Either the key exists, because another process has this rank, or somebody has published an error.
    Result<Store::Found> other = store_->get({card_key(rank_)}, Deadline::in_ms(0));
    if (!other) return publish(std::move(other.error()));
    if (!other->values.empty() && !is_mine(mine, other->values[0])) return publish(duplicate(mine, other->values[0]));
  }
  if (!job) return publish(std::move(job.error()));
  if (rank_ != 0) HKT_TRY(agree_on_job(*job, facts.version));
  HKT_ASSIGN(const int odd, rank_ == 0 ? check_cards(mine) : wait_for_check(mine));
  if (odd < 0) return {};
  return publish(rank_table::explain_difference(*store_, {facts.table, rank_}, odd, deadline_));
}

bool Rendezvous::is_mine(const Card& mine, const std::string& bytes) {
  Card card;
  return card.unpack(bytes, mine.version) && card.version == mine.version && card.token == mine.token;
}

// What rank 0 proves when it has compared the cards: of this job and no other.
std::string Rendezvous::met_claim(std::string_view verdict) const {
  return wire::Writer().raw("hocket met").u64(nonce_).raw(verdict).take();
}

// On rank 0. The first rank whose table is not rank 0's, -1 if there is none.
Result<int> Rendezvous::check_cards(const Card& mine) {
  Result<Store::Found> found = store_->get(all_cards(nranks_), deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) return publish(absent(*found, ""));
  int odd = -1;
  for (int r = 0; r < nranks_; ++r) {
    Card card;
    Status good = check_card(r, found->values[static_cast<size_t>(r)], mine, card);
    if (!good.ok()) return publish(std::move(good.error()));
    if (odd < 0 && card.table != mine.table) odd = r;
  }
  const std::string verdict = wire::Writer().u32(static_cast<uint32_t>(odd + 1)).take();
  std::string say = verdict;
  if (secret_ != nullptr) {
    Result<Secret::Mac> proof = secret_->mac(met_claim(verdict));
    if (!proof) return publish(std::move(proof.error()));
    say.append(proof.value().data(), proof.value().size());
  }
  Status put = store_->put(kMet, say);
  if (!put.ok()) return publish(std::move(put.error()));
  return odd;
}

// On all other ranks: what check_cards() has found.
Result<int> Rendezvous::wait_for_check(const Card& mine) {
  Result<Store::Found> found = store_->get({kMet, card_key(rank_)}, deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) return publish(who_is_absent());
  // Some stores overwrite: then this process sees another one's card in its place.
  if (!is_mine(mine, found->values[1])) return publish(duplicate(mine, found->values[1]));
  const std::string& said = found->values[0];
  const size_t size = std::min(said.size(), sizeof(uint32_t));
  const std::string verdict = said.substr(0, size);
  if (secret_ != nullptr && !secret_->proves(said.substr(size), met_claim(verdict))) {
    return publish(
        error(hktInvalidUsage,
              "who answers for rank 0 does not prove to know the job secret of rank %d: give "
              "all ranks the same HOCKET_SECRET, or the same HOCKET_SECRET_FILE, and each job a place of its "
              "own",
              rank_));
  }
  wire::Reader in(secret_ != nullptr ? verdict : said);
  const uint32_t odd = in.u32();
  if (!in.done() || odd > static_cast<uint32_t>(nranks_)) {
    return publish(error(hktRemoteError, "what rank 0 says of the ranks does not parse"));
  }
  return static_cast<int>(odd) - 1;
}

// Rank 0 did not get on: it is missing, or waits for others that are.
Error Rendezvous::who_is_absent() {
  Result<Store::Found> others = store_->get(all_cards(nranks_), Deadline::in_ms(0));
  if (!others) return std::move(others.error());
  if (others->missing.empty()) {
    return error(
        hktTimeout,
        "all ranks of %d have come, but rank 0 has not compared what they say of themselves within %s: look at "
        "its process, or raise HOCKET_INIT_TIMEOUT",
        nranks_, seconds(deadline_.span_ns()).c_str());
  }
  return absent(*others, "");
}

// What rank 0 says of its job; compared before anybody waits for ranks that may not exist.
Status Rendezvous::agree_on_job(const Store::Found& job, uint32_t version) {
  if (!job.missing.empty()) return publish(who_is_absent());
  wire::Reader in(job.values[0]);
  const uint32_t root_version = in.u32();
  if (in.ok() && root_version != version) {
    return publish(error(hktInvalidUsage,
                         "rank %d of %d (host %s) runs version %s of Hocket, rank 0 runs %s: install the same version "
                         "for all ranks",
                         rank_, nranks_, host_name().c_str(), version_text(version).c_str(),
                         version_text(root_version).c_str()));
  }
  const uint32_t root_nranks = in.u32();
  nonce_ = in.u64();
  if (!in.done()) return publish(error(hktRemoteError, "what rank 0 says of its job does not parse"));
  if (root_nranks != static_cast<uint32_t>(nranks_)) {
    return publish(error(hktInvalidUsage,
                         "rank %d (host %s, process %d) was told of %d ranks, rank 0 of %u: give all the same "
                         "WORLD_SIZE",
                         rank_, host_name().c_str(), getpid(), nranks_, root_nranks));
  }
  return {};
}

Status Rendezvous::check_card(int rank, const std::string& bytes, const Card& mine, Card& card) const {
  if (!card.unpack(bytes, mine.version)) return error(hktRemoteError, "the card of rank %d does not parse", rank);
  if (card.version != mine.version) {
    return error(hktInvalidUsage,
                 "rank %d of %d runs version %s of Hocket, rank %d runs %s: install the same version for all ranks",
                 rank, nranks_, version_text(card.version).c_str(), rank_, version_text(mine.version).c_str());
  }
  if (card.nranks != nranks_) {
    return error(hktInvalidUsage,
                 "rank %d (host %s, process %lld) was told of %d ranks, rank %d of %d: give all the same WORLD_SIZE",
                 rank, card.host.c_str(), static_cast<long long>(card.pid), card.nranks, rank_, nranks_);
  }
  if (card.rank != rank) return error(hktRemoteError, "the card of rank %d is that of rank %d", rank, card.rank);
  if (rank == rank_ && card.token != mine.token) return duplicate(mine, bytes);
  const auto secrets_differ = [&](const char* theirs, const char* ours) {
    return error(
        hktInvalidUsage,
        "rank %d (host %s, process %lld) has %s, rank %d has %s: give all ranks the same HOCKET_SECRET, or the "
        "same HOCKET_SECRET_FILE",
        rank, card.host.c_str(), static_cast<long long>(card.pid), theirs, rank_, ours);
  };
  if (secret_ == nullptr) return card.proof.empty() ? Status() : secrets_differ("a job secret", "none");
  if (card.proof.empty()) return secrets_differ("no job secret", "one");
  if (!secret_->proves(card.proof, card.claim())) return secrets_differ("another job secret", "its own");
  return {};
}

Error Rendezvous::duplicate(const Card& mine, const std::string& bytes) const {
  Card other;
  std::string who = "one unknown";
  if (other.unpack(bytes, mine.version) && other.version == mine.version) {
    who = format("host %s, process %lld", other.host.c_str(), static_cast<long long>(other.pid));
  }
  return error(
      hktInvalidUsage,
      "two processes say they are rank %d of %d: %s, and host %s, process %lld: give each its own RANK (RANK_ID with a "
      "rank table), and each job its own port or file",
      rank_, nranks_, who.c_str(), mine.host.c_str(), static_cast<long long>(mine.pid));
}

Error Rendezvous::absent(const Store::Found& found, std::string_view step) {
  const std::vector<int>& ranks = found.missing;
  const std::string limit = seconds(deadline_.span_ns());
  const char* many = ranks.size() > 1 ? "ranks" : "rank";
  if (step.empty()) {
    const std::string note = found.note.empty() ? "" : " (" + found.note + ")";
    return error(hktTimeout,
                 "%s %s of %d did not come within %s%s: look at how those processes were started and at their output, "
                 "or raise HOCKET_INIT_TIMEOUT",
                 many, number_list(ranks).c_str(), nranks_, limit.c_str(), note.c_str());
  }
  return error(hktTimeout, "%s %s of %d did not get to the step %s of bring-up within %s", many,
               number_list(ranks).c_str(), nranks_, in_quotes(step).c_str(), limit.c_str());
}

Error Rendezvous::publish(Error error) {
  fail(error);
  return error;
}

Result<std::vector<std::string>> Rendezvous::all_gather(std::string_view name, std::string_view mine) {
  if (store_ == nullptr) return error(hktInternalError, "all_gather after the rendezvous has ended");
  const Store::Series series{std::string(name), nranks_};
  Result<Store::Found> found = store_->exchange(series.key(rank_), mine, series, deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) return publish(absent(*found, name));
  return std::move(found->values);
}

Status Rendezvous::barrier(std::string_view name) {
  HKT_TRY(all_gather(name, ""));
  return {};
}

void Rendezvous::fail(const Error& error) {
  if (store_ == nullptr) return;
  store_->fail(error);
  (void)store_->leave(Deadline::in_ms(kLingerMs + 1000)).ok();
  traffic_ = store_->traffic();
  store_.reset();
}

Status Rendezvous::leave() {
  if (store_ == nullptr) return error(hktInternalError, "leave after the rendezvous has ended");
  Status left = store_->leave(deadline_);
  traffic_ = store_->traffic();
  store_.reset();
  return left;
}

}  // namespace hocket
