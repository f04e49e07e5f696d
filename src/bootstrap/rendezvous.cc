#include "bootstrap/rendezvous.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
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

constexpr const char* kJob = "job";
constexpr int kFarewellMs = 5000;

std::string card_key(int rank) { return "card/" + std::to_string(rank); }

std::vector<std::string> all_cards(int nranks) {
  std::vector<std::string> keys;
  for (int r = 0; r < nranks; ++r) keys.push_back(card_key(r));
  return keys;
}

std::string version_text(uint32_t version) {
  return format("%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
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

  std::string pack() const {
    return wire::Writer()
        .u32(version)
        .u32(static_cast<uint32_t>(rank))
        .u32(static_cast<uint32_t>(nranks))
        .u64(static_cast<uint64_t>(pid))
        .u64(token)
        .u64(table)
        .bytes(host)
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
    return in.done();
  }
};

Rendezvous::Rendezvous(int nranks, int rank, Deadline deadline)
    : rank_(rank), nranks_(nranks), start_ns_(now_ns()), deadline_(deadline) {}

Rendezvous::~Rendezvous() {
  if (store_ != nullptr) fail(error(hktRemoteError, "rank %d of %d gave up during bring-up", rank_, nranks_));
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const Identity& me, Deadline deadline,
                                                     const RendezvousOptions& options) {
  if (me.url.empty()) {
    Identity known = me;  // with what only the launcher knows
    HKT_ASSIGN(std::unique_ptr<Store> store, open_launcher_store(known, deadline));
    return open_with([&]() { return Result<std::unique_ptr<Store>>(std::move(store)); },
                     std::unique_ptr<Rendezvous>(new Rendezvous(known.nranks, known.rank, deadline)),
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
    const TcpMember member{me.rank, me.nranks, 0, "rank 0 at " + me.url + note};
    if (me.rank != 0) return join_tcp_store(where, member, until);
    Result<std::unique_ptr<Store>> made = host_tcp_store(where, member, until);
    if (!made) made.error().text += note;
    return made;
  };
  std::unique_ptr<Rendezvous> made(new Rendezvous(me.nranks, me.rank, deadline));
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
  HKT_ASSIGN(const Contact content, read_unique_id(id));
  const TcpMember member{rank, nranks, content.nonce,
                         "the process that made the unique id (" + content.addresses.front().text() + ")"};
  return open_with([&]() { return join_tcp_store([&]() -> Result<Contact> { return content; }, member, deadline); },
                   std::unique_ptr<Rendezvous>(new Rendezvous(nranks, rank, deadline)), {options.version});
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const hktStore_t& store, int nranks, int rank, Deadline deadline,
                                                     const RendezvousOptions& options) {
  HKT_TRY(check_rank(rank, nranks));
  return open_with([&]() { return make_callback_store(store); },
                   std::unique_ptr<Rendezvous>(new Rendezvous(nranks, rank, deadline)), {options.version});
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open_with(const OpenStore& open_store,
                                                          std::unique_ptr<Rendezvous> rendezvous, const Facts& facts) {
  HKT_ASSIGN(rendezvous->store_, open_store());
  HKT_TRY(rendezvous->meet(facts));
  HKT_INFO(init, (LogId{rendezvous->rank_, rendezvous->nranks_}), "rendezvous: all ranks met within %s",
           seconds(now_ns() - rendezvous->start_ns_).c_str());
  return rendezvous;
}

Status Rendezvous::meet(const Facts& facts) {
  const uint64_t digest = facts.table == nullptr ? 0 : facts.table->digest;
  const Card mine{facts.version, rank_, nranks_, getpid(), random_nonce(), digest, host_name()};
  Status put = store_->put(card_key(rank_), mine.pack());
  if (!put.ok() && put.error().code == hktInvalidUsage) {
    // Either the key exists, because another process has this rank, or somebody has published an error.
    Result<Store::Found> other = store_->get({card_key(rank_)}, Deadline::in_ms(0));
    if (!other) return publish(std::move(other.error()));
    if (other->values.empty()) return publish(std::move(put.error()));
    return publish(duplicate(mine, other->values[0]));
  }
  if (!put.ok()) return publish(std::move(put.error()));
  HKT_TRY(agree_on_job(facts.version));

  Result<Store::Found> found = store_->get(all_cards(nranks_), deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) return publish(absent(found->missing, ""));
  std::vector<Card> cards(static_cast<size_t>(nranks_));
  for (int r = 0; r < nranks_; ++r) {
    Card& card = cards[static_cast<size_t>(r)];
    Status good = check_card(r, found->values[static_cast<size_t>(r)], mine, card);
    if (!good.ok()) return publish(std::move(good.error()));
  }
  const auto odd = std::find_if(cards.begin(), cards.end(), [&](const Card& c) { return c.table != cards[0].table; });
  if (odd == cards.end()) return {};
  return publish(rank_table::explain_difference(*store_, {facts.table, rank_}, odd->rank, deadline_));
}

// Rank 0 says what the job is; the others compare, before they wait for ranks that may not exist.
Status Rendezvous::agree_on_job(uint32_t version) {
  if (rank_ == 0) {
    nonce_ = random_nonce();
    Status put = store_->put(kJob, wire::Writer().u32(version).u32(static_cast<uint32_t>(nranks_)).u64(nonce_).view());
    if (!put.ok()) return publish(std::move(put.error()));
    return {};
  }
  Result<Store::Found> found = store_->get({kJob}, deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) {
    // Rank 0 is missing, and perhaps others.
    Result<Store::Found> others = store_->get(all_cards(nranks_), Deadline::in_ms(0));
    if (!others) return publish(std::move(others.error()));
    return publish(absent(others->missing.empty() ? std::vector<int>{0} : others->missing, ""));
  }
  wire::Reader in(found->values[0]);
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
  // Some stores overwrite: then this process sees another one's card in its place.
  if (rank == rank_ && card.token != mine.token) return duplicate(mine, bytes);
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

Error Rendezvous::absent(const std::vector<int>& ranks, std::string_view step) {
  const std::string limit = seconds(deadline_.span_ns());
  const char* many = ranks.size() > 1 ? "ranks" : "rank";
  if (step.empty()) {
    return error(hktTimeout,
                 "%s %s of %d did not come within %s: look at how those processes were started and at their output, "
                 "or raise HOCKET_INIT_TIMEOUT",
                 many, number_list(ranks).c_str(), nranks_, limit.c_str());
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
  const std::string prefix = std::string(name) + "/";
  Status put = store_->put(prefix + std::to_string(rank_), mine);
  if (!put.ok()) return publish(std::move(put.error()));
  std::vector<std::string> keys;
  for (int r = 0; r < nranks_; ++r) keys.push_back(prefix + std::to_string(r));
  Result<Store::Found> found = store_->get(keys, deadline_);
  if (!found) return publish(std::move(found.error()));
  if (!found->missing.empty()) return publish(absent(found->missing, name));
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
  store_.reset();
}

Status Rendezvous::leave() {
  if (store_ == nullptr) return error(hktInternalError, "leave after the rendezvous has ended");
  Status left = store_->leave(deadline_);
  store_.reset();
  return left;
}

}  // namespace hocket
