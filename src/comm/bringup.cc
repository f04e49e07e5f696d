#include "comm/bringup.h"

#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "base/network_env.h"
#include "base/random.h"
#include "bootstrap/interfaces.h"
#include "comm/pack.h"
#include "comm/progress.h"
#include "comm/roster.h"
#include "select/tune_file.h"
#include "transport/cma.h"
#include "transport/shm/group.h"
#include "transport/shm/shm_transport.h"

namespace hocket {
namespace {

enum class Shm : uint8_t { off, memfd, devshm };
enum class Cma : uint8_t { off, wanted, needed };

// What every rank tells all others first.
struct Member {
  std::string host;      // ranks with equal ids may share memory; trying tells
  uint64_t token = 0;    // of the process
  CpuShare cpus;         // usable by this rank
  uint64_t cache = 0;    // last-level cache, bytes
  Shm shm = Shm::memfd;  // HOCKET_SHM, off when the transport is tcp
  ReadProof proof;       // in this rank's memory
  Cma cma = Cma::off;    // HOCKET_CMA, off when HOCKET_PROTO does not read
  uint8_t fence = 0;     // registered for asymmetric fences
  uint8_t tcp_only = 0;
  uint8_t shm_only = 0;
  uint8_t determinism = HKT_DETERMINISM_R1;
  std::string algo;     // HOCKET_ALGO
  select::Costs costs;  // those of rank 0 count

  std::string pack() const {
    Packer p;
    p.text(host)
        .put(token)
        .text(cpus.mask)
        .put(cpus.quota)
        .put(cache)
        .put(shm)
        .put(proof.pid)
        .put(proof.address)
        .put(proof.number)
        .put(cma)
        .put(fence)
        .put(tcp_only)
        .put(shm_only)
        .put(determinism)
        .text(algo);
    for (const select::CostField& f : select::kCostFields) p.put(costs.*f.field);
    return p.bytes();
  }
  static bool unpack_costs(Unpacker& u, select::Costs& costs) {
    for (const select::CostField& f : select::kCostFields)
      if (!u.get(costs.*f.field) || costs.*f.field < 1 || costs.*f.field > select::kMostCost) return false;
    return true;
  }
  static bool unpack(const std::string& bytes, Member& c) {
    Unpacker u(bytes);
    return u.text(c.host, 128) && u.get(c.token) && u.text(c.cpus.mask, 4096) && u.get(c.cpus.quota) &&
           u.get(c.cache) && u.get(c.shm) && u.get(c.proof.pid) && u.get(c.proof.address) && u.get(c.proof.number) &&
           u.get(c.cma) && u.get(c.fence) && u.get(c.tcp_only) && u.get(c.shm_only) && u.get(c.determinism) &&
           u.text(c.algo, 4096) && unpack_costs(u, c.costs) && u.done();
  }
};

// Random per process, and different in a forked child.
Result<uint64_t> process_token() {
  static const Result<uint64_t> random = random_bits();
  if (!random.ok()) return Error(random.error());
  return random.value() ^ (static_cast<uint64_t>(getpid()) * 0x9e3779b97f4a7c15u);
}

Result<uint8_t> determinism_from_environment() {
  static constexpr std::string_view kClasses[] = {"R1", "R2", "R3", "R4"};
  HKT_ASSIGN(const std::string text, env::get_choice("HOCKET_DETERMINISM", "R1", kClasses));
  return static_cast<uint8_t>(text[1] - '0');
}

// The whole of a bring-up, step by step. Each exchange doubles as the point where an error of one rank reaches all.
class BringUp {
 public:
  BringUp(Rendezvous& rendezvous, const CommSettings& settings, Deadline deadline)
      : meet_(rendezvous), deadline_(deadline), log_{meet_.rank(), meet_.nranks()} {
    parts_.rank = meet_.rank();
    parts_.nranks = meet_.nranks();
    parts_.nonce = meet_.nonce();
    roster_.secret = meet_.secret();
    parts_.epoch = epoch_of(parts_.nonce);
    roster_.geometry = settings.geometry.value_or(geometry_for(parts_.nranks, Memory::shared));
    parts_.route.resize(static_cast<size_t>(parts_.nranks));
  }

  Status exchange_members(const CommSettings& settings);
  Status share_memory();
  Status connect_tcp(const CommSettings& settings);
  Result<std::unique_ptr<Communicator>> finish(const CommSettings& settings);

 private:
  const Member& mine() const { return members_[static_cast<size_t>(parts_.rank)]; }
  // HOCKET_PROTO and HOCKET_CMA.
  Result<Cma> protocols();
  void seat_mates();
  // Why this rank cannot read every one of `group`; good if it can, or need not. `unmapped` is why it does not share
  // memory with them, "" if it does: what is not shared is not read either, an error where a rank of the host needs it.
  Status try_reading_mates(const std::vector<int>& group, const std::string& unmapped) const;
  // All have tried: whether ranks read one another's memory is a fact from now on.
  Status agree_on_reading(const std::vector<std::string>& outcomes);
  // Everyone says how its last step went: all come back with the texts of all ("" is good).
  Result<std::vector<std::string>> say(const char* step, const std::string& text) {
    return meet_.all_gather(step, text);
  }

  Rendezvous& meet_;
  Deadline deadline_;
  LogId log_;
  Parts parts_;
  Roster roster_;
  uint64_t number_ = 0;  // for peers to read
  std::vector<Member> members_;
  std::vector<std::shared_ptr<Mate>> mates_;  // those of the roster, while they may still change
  std::vector<std::string> shm_outcome_;      // by rank: "" has mapped its group's segment, else why not
  std::shared_ptr<shm::Segment> segment_;
};

Status BringUp::exchange_members(const CommSettings& settings) {
  static constexpr std::string_view kTransports[] = {"auto", "shm", "tcp"};
  static constexpr std::string_view kProgress[] = {"caller", "thread"};
  static constexpr std::string_view kShm[] = {"memfd", "devshm", "off"};
  HKT_ASSIGN(std::string transport, env::get_choice("HOCKET_TRANSPORT", "auto", kTransports));
  if (settings.transport) transport = *settings.transport;
  if (std::find(std::begin(kTransports), std::end(kTransports), transport) == std::end(kTransports))
    return error(hktInvalidArgument, "transport '%s' is unknown; known: auto, shm, tcp", transport.c_str());
  HKT_ASSIGN(const std::string shm, env::get_choice("HOCKET_SHM", "memfd", kShm));
  HKT_ASSIGN(const std::string progress, env::get_choice("HOCKET_PROGRESS", "caller", kProgress));
  parts_.progress_thread = settings.progress.value_or(progress) == "thread";
  if (parts_.progress_thread) HKT_TRY(progress::start());

  Member card;
  HKT_ASSIGN(card.cma, protocols());
  HKT_ASSIGN(number_, random_bits());
  card.proof = {getpid(), reinterpret_cast<uint64_t>(&number_), number_};
  if (settings.host_id) {
    card.host = *settings.host_id;
  } else {
    HKT_ASSIGN(card.host, host_id());
  }
  HKT_ASSIGN(card.token, process_token());
  card.cpus = cpu_share();
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  card.cache = cache > 0 ? static_cast<uint64_t>(cache) : 0;
  card.tcp_only = transport == "tcp";
  card.shm_only = transport == "shm";
  card.shm = card.tcp_only || shm == "off" ? Shm::off : shm == "devshm" ? Shm::devshm : Shm::memfd;
  if (card.shm_only && card.shm == Shm::off)
    return error(hktInvalidUsage, "rank %d: transport shm is asked for, but HOCKET_SHM=off forbids it", parts_.rank);
  if (card.tcp_only && card.cma == Cma::needed)
    return error(hktInvalidUsage,
                 "rank %d: transport tcp is asked for, but HOCKET_CMA=1 or HOCKET_PROTO=cma wants memory read by ranks "
                 "that share memory",
                 parts_.rank);
  card.fence = register_asymmetric_fence();
  if (settings.determinism) {
    card.determinism = static_cast<uint8_t>(*settings.determinism);
  } else {
    HKT_ASSIGN(card.determinism, determinism_from_environment());
  }
  if (parts_.rank == 0) card.costs = select::costs_of_this_machine(log_);
  card.algo = settings.algo ? *settings.algo : env::get("HOCKET_ALGO").value_or("");
  if (card.algo.size() > 4096)
    return error(hktInvalidUsage, "HOCKET_ALGO has %zu bytes; 4096 are allowed", card.algo.size());

  HKT_ASSIGN(const std::vector<std::string> all, meet_.all_gather("member", card.pack()));
  members_.resize(all.size());
  parts_.fence = Fence::asymmetric;
  for (size_t r = 0; r < all.size(); ++r) {
    if (!Member::unpack(all[r], members_[r]))
      return error(hktRemoteError, "rank %zu told about itself what cannot be read", r);
  }
  for (size_t r = 0; r < all.size(); ++r) {
    if (members_[r].tcp_only != mine().tcp_only || members_[r].shm_only != mine().shm_only)
      return error(hktInvalidUsage, "rank %zu and rank %d were given different transports; give all ranks the same", r,
                   parts_.rank);
    if (members_[r].determinism != mine().determinism)
      return error(hktInvalidUsage,
                   "determinism is R%d on rank %zu and R%d on rank %d; it must be the same on all ranks",
                   members_[r].determinism, r, mine().determinism, parts_.rank);
    if (members_[r].algo != mine().algo)
      return error(hktInvalidUsage,
                   "HOCKET_ALGO is '%s' on rank %zu and '%s' on rank %d; it must be the same on all ranks",
                   members_[r].algo.c_str(), r, mine().algo.c_str(), parts_.rank);
    if (members_[r].fence == 0) parts_.fence = Fence::full;  // one process without is enough
  }
  roster_.costs = members_.front().costs;
  roster_.transport = transport;
  roster_.backing = mine().shm == Shm::devshm ? shm::Backing::devshm : shm::Backing::memfd;
  seat_mates();
  return {};
}

Result<Cma> BringUp::protocols() {
  static constexpr std::string_view kProtocols[] = {"auto", "slot", "mapped", "direct", "cma"};
  static constexpr std::string_view kCma[] = {"auto", "0", "1"};
  HKT_ASSIGN(const std::string protocol, env::get_choice("HOCKET_PROTO", "auto", kProtocols));
  HKT_ASSIGN(const std::string cma, env::get_choice("HOCKET_CMA", "auto", kCma));
  parts_.mapped = protocol == "auto" || protocol == "mapped";
  parts_.direct = protocol == "auto" || protocol == "direct";
  parts_.always_read = protocol == "cma";
  const bool reads = protocol == "auto" || parts_.always_read;
  if (reads != (cma != "0") && (cma == "1" || parts_.always_read))
    return error(hktInvalidUsage, "rank %d: HOCKET_PROTO=%s and HOCKET_CMA=%s contradict each other", parts_.rank,
                 protocol.c_str(), cma.c_str());
  if (!reads || cma == "0") return Cma::off;
  return cma == "1" || parts_.always_read ? Cma::needed : Cma::wanted;
}

// Who tries to share memory with whom: ranks of one host that want it in the same way.
void BringUp::seat_mates() {
  for (int r = 0; r < parts_.nranks; ++r) {
    const Member& c = members_[static_cast<size_t>(r)];
    auto m = std::make_shared<Mate>();
    m->host = c.host;
    m->token = c.token;
    m->cpus = c.cpus;
    m->cache = c.cache;
    m->pid = c.proof.pid;
    m->memory = r;
    for (int other = 0; c.shm != Shm::off && other < r; ++other) {
      const Member& o = members_[static_cast<size_t>(other)];
      if (o.host != c.host || o.shm != c.shm) continue;
      m->memory = std::min(m->memory, other);
      ++m->seat;
    }
    mates_.push_back(m);
    roster_.mates.push_back(std::move(m));
  }
}

Status BringUp::try_reading_mates(const std::vector<int>& group, const std::string& unmapped) const {
  const bool needed = std::any_of(members_.begin(), members_.end(),
                                  [&](const Member& m) { return m.host == mine().host && m.cma == Cma::needed; });
  for (int r = 0; r < parts_.nranks; ++r) {
    const Member& theirs = members_[static_cast<size_t>(r)];
    if (r == parts_.rank || theirs.host != mine().host) continue;
    const bool apart = std::find(group.begin(), group.end(), r) == group.end();
    const bool shares = !apart && unmapped.empty();
    if (!shares && !needed) continue;
    if (mine().cma == Cma::off)
      return error(hktInvalidUsage, "rank %d does not read (HOCKET_CMA=0, or HOCKET_PROTO=slot, mapped or direct)",
                   parts_.rank);
    if (theirs.token == mine().token) continue;  // of this process: read without a system call
    if (!shares)
      return error(hktInvalidUsage, "it shares no memory with rank %d, which is in another process of its host (%s)", r,
                   apart ? "HOCKET_SHM is off, or differs" : unmapped.c_str());
    HKT_TRY(try_reading(theirs.proof));
  }
  return {};
}

// All or nobody: what is chosen must be the same on all ranks.
Status BringUp::agree_on_reading(const std::vector<std::string>& outcomes) {
  roster_.readable = true;
  for (size_t r = 0; r < outcomes.size(); ++r) {
    if (outcomes[r].empty()) continue;
    const bool asked = members_[r].cma != Cma::off;  // and it could not
    if (mine().cma == Cma::needed)
      return error(hktInvalidUsage,
                   "rank %d is to have private memory read by its peers (HOCKET_CMA=1 or HOCKET_PROTO=cma), but %s%s",
                   parts_.rank, asked ? format("rank %zu: ", r).c_str() : "", outcomes[r].c_str());
    if (asked && roster_.readable && static_cast<int>(r) == parts_.rank)
      HKT_INFO(shm, log_, "this rank cannot read the private memory of its peers, so all messages of it are copied: %s",
               outcomes[r].c_str());
    roster_.readable = false;
  }
  return {};
}

Status BringUp::share_memory() {
  shm::GroupConfig config = shm_config(roster_, parts_);
  const std::vector<int>& group = config.ranks;

  // Two exchanges: the segment is there before anyone attaches, and its leader keeps serving until all have.
  std::unique_ptr<shm::Leader> leader;
  std::string outcome;
  const bool shares = group.size() > 1;
  if (shares && group.front() == parts_.rank) {
    auto made = shm::Leader::create(config);
    if (made.ok()) {
      leader = std::move(made.value());
      if (Status served = leader->serve(deadline_); !served.ok()) outcome = served.error().text;
      segment_ = leader->segment();
    } else {
      outcome = made.error().text;
      HKT_WARN(shm, log_, "no shared memory on this host, its %zu ranks use TCP instead: %s", group.size(),
               outcome.c_str());
    }
  }
  HKT_ASSIGN(const std::vector<std::string> leaders, say("shm-lead", outcome));
  if (shares && leader == nullptr) {
    outcome = leaders[static_cast<size_t>(group.front())];
    if (outcome.empty()) {
      auto attached = shm::attach(config, deadline_);
      if (attached.ok()) {
        segment_ = std::move(attached.value());
      } else {
        outcome = attached.error().text;
        HKT_WARN(shm, log_, "this rank cannot map the shared memory of its host and uses TCP instead: %s",
                 outcome.c_str());
      }
    }
  }
  const Status reads = try_reading_mates(group, outcome);
  const std::string unreadable = reads.ok() ? "" : reads.error().text;
  HKT_ASSIGN(const std::vector<std::string> said, say("shm", Packer().text(outcome).text(unreadable).bytes()));
  std::vector<std::string> why_unreadable(said.size());
  shm_outcome_.resize(said.size());
  for (size_t r = 0; r < said.size(); ++r) {
    Unpacker u(said[r]);
    if (!u.text(shm_outcome_[r], 1u << 16) || !u.text(why_unreadable[r], 1u << 16) || !u.done())
      return error(hktRemoteError, "what rank %zu says of shared memory cannot be read", r);
  }
  HKT_TRY(agree_on_reading(why_unreadable));
  if (leader != nullptr) leader->stop();
  if (!outcome.empty()) segment_.reset();

  // From now on who shares memory is a fact: a rank that could not map it shares it with nobody.
  for (int r = 0; r < parts_.nranks; ++r)
    if (!shm_outcome_[static_cast<size_t>(r)].empty()) mates_[static_cast<size_t>(r)]->memory = r;

  if (segment_ == nullptr) return {};
  roster_.file = segment_->file();
  config.processes = roster_.processes(group, parts_.rank);
  auto transport = std::make_unique<shm::ShmTransport>(segment_, config);
  parts_.bell = &transport->bell();
  for (const int r : roster_.group_of(parts_.rank))
    if (r != parts_.rank) parts_.route[static_cast<size_t>(r)] = transport.get();
  parts_.transports.push_back(std::move(transport));
  return {};
}

Status BringUp::connect_tcp(const CommSettings& settings) {
  if (parts_.bell == nullptr) {
    parts_.own_bell = std::make_unique<Doorbell>();
    parts_.bell = parts_.own_bell.get();
  }
  // Every rank knows all outcomes, so all agree on whether anybody needs TCP.
  int apart = -1;  // a rank that does not share memory with all; best one that says why
  for (int r = parts_.nranks - 1; r >= 0; --r)
    if (static_cast<int>(roster_.group_of(r).size()) != parts_.nranks &&
        (apart < 0 || shm_outcome_[static_cast<size_t>(apart)].empty()))
      apart = r;
  if (apart < 0) return {};
  const std::string& why = shm_outcome_[static_cast<size_t>(apart)];
  if (mine().shm_only)
    return error(hktInvalidUsage, "transport shm is asked for, but rank %d does not share memory with all others: %s",
                 apart, why.empty() ? "it is on another host (or HOCKET_HOST_ID says so)" : why.c_str());

  const auto here = std::count_if(mates_.begin(), mates_.end(), [&](const auto& m) {
    return m->host == mates_[static_cast<size_t>(parts_.rank)]->host;
  });
  HKT_ASSIGN(const PortRanges ports, port_ranges());
  HKT_TRY(check_enough(ports, static_cast<size_t>(here)));
  roster_.geometry = settings.geometry.value_or(geometry_for(parts_.nranks, Memory::apart));
  HKT_ASSIGN(const int64_t sockets, env::get_int("HOCKET_NSOCKS_PERPEER", 1, 1, tcp::kMaxSockets));
  roster_.striping = settings.striping.value_or(tcp::Striping{});
  if (!settings.striping) roster_.striping.sockets = static_cast<uint32_t>(sockets);
  tcp::Config config = tcp_config(roster_, parts_);
  HKT_ASSIGN(const std::vector<Interface> interfaces, usable_interfaces());
  for (const Interface& i : interfaces) config.addresses.push_back(i.address);
  config.nets = networks(interfaces);
  HKT_ASSIGN(config.bound, source_rule());
  HKT_ASSIGN(std::unique_ptr<tcp::TcpTransport> transport, tcp::TcpTransport::listen(config));
  HKT_ASSIGN(const std::vector<std::string> contacts, meet_.all_gather("tcp", transport->contact()));
  HKT_TRY(transport->set_contacts(contacts));
  roster_.port = transport->port();
  for (int r = 0; r < parts_.nranks; ++r) {
    mates_[static_cast<size_t>(r)]->contact = contacts[static_cast<size_t>(r)];
    if (r != parts_.rank && parts_.route[static_cast<size_t>(r)] == nullptr)
      parts_.route[static_cast<size_t>(r)] = transport.get();
  }
  parts_.transports.push_back(std::move(transport));
  return {};
}

Result<std::unique_ptr<Communicator>> BringUp::finish(const CommSettings& settings) {
  look_up_facts(roster_, parts_);
  if (settings.timeout_ms) {
    parts_.timeout_ms = *settings.timeout_ms;
  } else {
    HKT_ASSIGN(parts_.timeout_ms, env::get_seconds_ms("HOCKET_TIMEOUT", 600'000));
  }
  parts_.algo = mine().algo;
  parts_.determinism = static_cast<hktDeterminism_t>(mine().determinism);
  parts_.roster = std::make_shared<const Roster>(std::move(roster_));
  HKT_INFO(init, log_, "%u group%s of ranks with shared memory, %s%s", parts_.facts.hosts,
           parts_.facts.hosts == 1 ? "" : "s",
           parts_.transports.empty() ? "no transport" : parts_.transports.front()->name(),
           parts_.transports.size() > 1 ? " and tcp" : "");
  return Communicator::create(std::move(parts_));
}

}  // namespace

// About 1 MiB of slots per direction for few ranks, less for many, so that a rank of 64 stays under 64 MiB. Two ranks
// that share no memory have larger slots, for a message costs them system calls; with more ranks, larger slots would
// fall out of the cache between one rank's turn and the next.
RingGeometry geometry_for(int nranks, Memory memory) {
  if (nranks == 2 && memory == Memory::apart) return {4, 512 * 1024, 2};
  RingGeometry g;
  g.depth = 8;
  g.ack_batch = 4;
  g.slot_bytes = nranks <= 8 ? 128 * 1024 : nranks <= 16 ? 64 * 1024 : 32 * 1024;
  return g;
}

Result<Deadline> init_deadline(const CommSettings& settings) {
  if (settings.init_timeout_ms) return Deadline::in_ms(*settings.init_timeout_ms);
  HKT_ASSIGN(const int64_t ms, env::get_seconds_ms("HOCKET_INIT_TIMEOUT", 30'000));
  return Deadline::in_ms(ms);
}

Result<std::unique_ptr<Communicator>> bring_up(Rendezvous& rendezvous, const CommSettings& settings,
                                               Deadline deadline) {
  auto steps = [&]() -> Result<std::unique_ptr<Communicator>> {
    BringUp up(rendezvous, settings, deadline);
    HKT_TRY(up.exchange_members(settings));
    HKT_TRY(up.share_memory());
    HKT_TRY(up.connect_tcp(settings));
    HKT_ASSIGN(std::unique_ptr<Communicator> comm, up.finish(settings));
    HKT_TRY(rendezvous.all_gather("ready", ""));
    return comm;
  };
  auto result = [&]() -> Result<std::unique_ptr<Communicator>> {
    try {
      return steps();
    } catch (const std::bad_alloc&) {
      return error(hktSystemError, "rank %d ran out of memory", rendezvous.rank());
    } catch (const std::exception& e) {
      return error(hktInternalError, "rank %d: %s", rendezvous.rank(), e.what());
    }
  }();
  // An error of this rank ends the bring-up of all: whoever waits in an exchange gets this text.
  if (!result.ok())
    rendezvous.fail(result.error());
  else
    HKT_TRY(rendezvous.leave());
  return result;
}

}  // namespace hocket
