#include "comm/children.h"

#include <algorithm>
#include <exception>
#include <new>
#include <numeric>
#include <string>

#include "base/random.h"
#include "base/text.h"
#include "comm/exchange.h"
#include "comm/pack.h"
#include "comm/roster.h"
#include "transport/shm/group.h"
#include "transport/shm/shm_transport.h"

namespace hocket {
namespace {

// Slots of a child have at most so many bytes: it shall cost less than a MiB as long as its calls are small, and large
// ones lose little.
constexpr uint32_t kChildSlot = 64 * 1024;

// What each rank says first.
struct Bid {
  int32_t color = 0, key = 0;
  uint8_t determinism = 0;  // wanted
  uint64_t bits = 0;        // random; those of the child's rank 0 become its nonce

  std::string pack() const { return Packer().put(color).put(key).put(determinism).put(bits).bytes(); }
  bool unpack(const std::string& bytes) {
    Unpacker u(bytes);
    return u.get(color) && u.get(key) && u.get(determinism) && u.get(bits) && u.done();
  }
};

// How a step went on one rank, for the others.
struct Report {
  uint64_t offset = 0;  // leaders: of the segment
  int32_t code = hktSuccess;
  std::string text;

  void failed(const Error& e) {
    code = e.code;
    text = e.text;
  }
  std::string pack() const { return Packer().put(offset).put(code).text(text).bytes(); }
  bool unpack(const std::string& bytes) {
    Unpacker u(bytes);
    return u.get(offset) && u.get(code) && u.text(text, size_t{1} << 16) && u.done();
  }
};

// One rank's part in making a child. Every report is a point where an error of one rank reaches all.
class Birth {
 public:
  Birth(Exchange& exchange, const Parts& parent, std::vector<int> members, uint64_t nonce)
      : exchange_(exchange), members_(std::move(members)) {
    const auto mine = std::find(members_.begin(), members_.end(), parent.rank);
    parts_.rank = static_cast<int>(mine - members_.begin());
    parts_.nranks = static_cast<int>(members_.size());
    parts_.nonce = nonce;
    parts_.epoch = epoch_of(nonce);
    parts_.fence = parent.fence;
    parts_.timeout_ms = parent.timeout_ms;
    parts_.progress_thread = parent.progress_thread;
    parts_.algo = parent.algo;
    parts_.mapped = parent.mapped;
    parts_.direct = parent.direct;
    parts_.always_read = parent.always_read;
    parts_.determinism = parent.determinism;
    parts_.route.resize(members_.size());
    roster_ = *parent.roster;
    roster_.mates.clear();
    for (const int r : members_) roster_.mates.push_back(parent.roster->mates[static_cast<size_t>(r)]);
  }

  Result<std::unique_ptr<Communicator>> run(const CommSettings& settings) {
    if (settings.timeout_ms) parts_.timeout_ms = *settings.timeout_ms;
    if (settings.algo) parts_.algo = *settings.algo;
    if (settings.determinism) parts_.determinism = *settings.determinism;
    roster_.geometry.slot_bytes = std::min(roster_.geometry.slot_bytes, kChildSlot);
    if (settings.geometry) roster_.geometry = *settings.geometry;

    const shm::GroupConfig config = shm_config(roster_, parts_);
    std::shared_ptr<shm::Segment> segment;
    Report led;
    if (config.ranks.size() > 1 && config.ranks.front() == parts_.rank) {
      auto made = caught([&] { return shm::create_in(roster_.file, config); });
      if (made.ok()) {
        segment = std::move(*made);
        led.offset = segment->offset();
      } else {
        led.failed(made.error());
      }
    }
    HKT_ASSIGN(const std::vector<Report> leaders, report(led));
    HKT_TRY(all_well(leaders));

    Report outcome;
    std::unique_ptr<Communicator> child;
    if (auto made = caught([&] { return build(config, std::move(segment), leaders); }); made.ok())
      child = std::move(*made);
    else
      outcome.failed(made.error());
    HKT_ASSIGN(const std::vector<Report> outcomes, report(outcome));
    HKT_TRY(all_well(outcomes));
    return child;
  }

 private:
  // What is thrown before a report is its error: the parent is none the worse for it.
  template <class Step>
  static auto caught(Step&& step) -> decltype(step()) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      return error(hktSystemError, "out of memory");
    } catch (const std::exception& e) {
      return error(hktSystemError, "%s", e.what());
    }
  }
  Result<std::unique_ptr<Communicator>> build(const shm::GroupConfig& config, std::shared_ptr<shm::Segment> segment,
                                              const std::vector<Report>& leaders) {
    if (config.ranks.size() > 1) {
      if (segment == nullptr) {
        const uint64_t offset = leaders[static_cast<size_t>(config.ranks.front())].offset;
        HKT_ASSIGN(segment, shm::attach_in(roster_.file, offset, config));
      }
      auto transport = std::make_unique<shm::ShmTransport>(std::move(segment), config);
      parts_.bell = &transport->bell();
      take(std::move(transport), config.ranks);
    }
    if (static_cast<int>(config.ranks.size()) < parts_.nranks) {
      HKT_ASSIGN(auto transport, tcp::TcpTransport::share(tcp_config(roster_, parts_), roster_.port));
      std::vector<std::string> contacts;
      for (const auto& mate : roster_.mates) contacts.push_back(mate->contact);
      HKT_TRY(transport->set_contacts(contacts));
      std::vector<int> all(members_.size());
      std::iota(all.begin(), all.end(), 0);
      take(std::move(transport), all);
    }
    if (parts_.bell == nullptr) {
      parts_.own_bell = std::make_unique<Doorbell>();
      parts_.bell = parts_.own_bell.get();
    }
    // Nobody looks after the listeners for a communicator that needs none: they must not outlive the others.
    if (static_cast<int>(config.ranks.size()) == parts_.nranks) roster_.port.reset();
    look_up_facts(roster_, parts_);
    parts_.roster = std::make_shared<const Roster>(std::move(roster_));
    return Communicator::create(std::move(parts_));
  }

  // `transport` reaches those of `ranks` that none before it does.
  void take(std::unique_ptr<Transport> transport, const std::vector<int>& ranks) {
    for (const int r : ranks)
      if (r != parts_.rank && parts_.route[static_cast<size_t>(r)] == nullptr)
        parts_.route[static_cast<size_t>(r)] = transport.get();
    parts_.transports.push_back(std::move(transport));
  }

  Result<std::vector<Report>> report(const Report& mine) {
    HKT_ASSIGN(const std::vector<std::string> said, exchange_.all_gather(mine.pack()));
    std::vector<Report> all(said.size());
    for (size_t r = 0; r < said.size(); ++r)
      if (!all[r].unpack(said[r]))
        return error(hktRemoteError, "rank %d told what cannot be read of a new communicator", members_[r]);
    return all;
  }

  Status all_well(const std::vector<Report>& reports) const {
    for (size_t r = 0; r < reports.size(); ++r)
      if (reports[r].code != hktSuccess)
        return error(static_cast<Code>(reports[r].code), "no new communicator: rank %d: %s", members_[r],
                     reports[r].text.c_str());
    return {};
  }

  Exchange& exchange_;
  const std::vector<int> members_;  // ranks of the parent, by rank of the child
  Parts parts_;
  Roster roster_;
};

Status check_parent(const Communicator& parent, const CommSettings& settings) {
  const Roster* roster = parent.parts().roster.get();
  if (roster == nullptr)
    return error(hktInvalidUsage, "rank %d: no communicator can be made from this one, which was not brought up",
                 parent.rank());
  if (settings.transport && *settings.transport != roster->transport)
    return error(hktInvalidArgument, "transport is '%s', but a new communicator has the transport of its parent, '%s'",
                 settings.transport->c_str(), roster->transport.c_str());
  return {};
}

Result<Bid> bid(const Communicator& parent, Place place, const CommSettings& settings) {
  Bid b;
  b.color = place.color;
  b.key = place.key;
  b.determinism = static_cast<uint8_t>(settings.determinism.value_or(parent.parts().determinism));
  HKT_ASSIGN(b.bits, random_bits());
  return b;
}

// Asks for everybody's bid.
Result<std::vector<Bid>> hear(Exchange& exchange, const Bid& mine) {
  HKT_ASSIGN(const std::vector<std::string> said, exchange.all_gather(mine.pack()));
  std::vector<Bid> bids(said.size());
  for (size_t i = 0; i < said.size(); ++i)
    if (!bids[i].unpack(said[i])) return error(hktRemoteError, "what a rank says of a new communicator cannot be read");
  return bids;
}

// Of the members of a child; each of them gets the same answer.
Status agree(const std::vector<Bid>& bids, const std::vector<int>& members) {
  for (size_t i = 1; i < bids.size(); ++i)
    if (bids[i].determinism != bids[0].determinism)
      return error(hktInvalidUsage,
                   "determinism is R%d on rank %d and R%d on rank %d; it must be the same on all ranks",
                   bids[0].determinism, members[0], bids[i].determinism, members[i]);
  return {};
}

Result<int64_t> patience(const CommSettings& settings) {
  HKT_ASSIGN(const Deadline deadline, init_deadline(settings));
  return deadline.ns() == Deadline::never().ns() ? -1 : deadline.left_ms();
}

// Runs a call of `comm`'s ranks. What is thrown there is a fault of it, as in other calls: the others wait in it.
template <class Body>
auto in_call(Communicator& comm, const char* what, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    return comm.threw(e, what);
  }
}

Result<std::unique_ptr<Communicator>> among_all(Communicator& parent, Meeting meeting, Place place,
                                                const CommSettings& settings) {
  HKT_ASSIGN(const Bid mine, bid(parent, place, settings));
  HKT_ASSIGN(const int64_t timeout_ms, patience(settings));
  HKT_ASSIGN(const std::unique_ptr<Exchange> exchange, Exchange::of_all(parent, meeting, timeout_ms));
  HKT_ASSIGN(const std::vector<Bid> bids, hear(*exchange, mine));
  if (place.color == HKT_SPLIT_NOCOLOR) return std::unique_ptr<Communicator>();
  std::vector<int> members;
  for (int r = 0; r < parent.size(); ++r)
    if (bids[static_cast<size_t>(r)].color == place.color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return bids[static_cast<size_t>(a)].key < bids[static_cast<size_t>(b)].key; });
  std::vector<Bid> theirs;
  for (const int r : members) theirs.push_back(bids[static_cast<size_t>(r)]);
  HKT_TRY(agree(theirs, members));
  const uint64_t nonce = theirs.front().bits;
  exchange->narrow(members);
  return Birth(*exchange, parent.parts(), std::move(members), nonce).run(settings);
}

}  // namespace

Result<std::unique_ptr<Communicator>> split(Communicator& parent, Place place, const CommSettings& settings) {
  if (place.color < 0 && place.color != HKT_SPLIT_NOCOLOR)
    return error(hktInvalidArgument, "color is %d, must be at least 0, or HKT_SPLIT_NOCOLOR for no communicator",
                 place.color);
  HKT_TRY(check_parent(parent, settings));
  return in_call(parent, "split()", [&] { return among_all(parent, Meeting::split, place, settings); });
}

Result<std::unique_ptr<Communicator>> duplicate(Communicator& parent, const CommSettings& settings) {
  HKT_TRY(check_parent(parent, settings));
  return in_call(parent, "dup()", [&] { return among_all(parent, Meeting::dup, Place{}, settings); });
}

Result<std::unique_ptr<Communicator>> create_child(Communicator& parent, std::vector<int> ranks, int tag,
                                                   const CommSettings& settings) {
  HKT_TRY(check_parent(parent, settings));
  return in_call(parent, "hktCommCreate", [&]() -> Result<std::unique_ptr<Communicator>> {
    uint64_t seal = static_cast<uint32_t>(tag) ^ (uint64_t{ranks.size()} << 32);
    std::vector<size_t> place(static_cast<size_t>(parent.size()), ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] < 0 || ranks[i] >= parent.size())
        return error(hktInvalidArgument, "ranks[%zu] is %d, must be in [0, %d)", i, ranks[i], parent.size());
      size_t& first = place[static_cast<size_t>(ranks[i])];
      if (first != ranks.size())
        return error(hktInvalidArgument, "ranks[%zu] is %d, which is ranks[%zu] already", i, ranks[i], first);
      first = i;
      seal = seal * 0x100000001b3u + static_cast<uint32_t>(ranks[i]) + 1;
    }
    if (place[static_cast<size_t>(parent.rank())] == ranks.size())
      return error(hktInvalidArgument,
                   "ranks does not have the calling rank, %d: only the ranks of the new communicator call this",
                   parent.rank());
    HKT_ASSIGN(const Bid mine, bid(parent, {}, settings));
    HKT_ASSIGN(const Deadline deadline, init_deadline(settings));
    HKT_ASSIGN(const std::unique_ptr<Exchange> exchange,
               Exchange::of_some(parent, ranks, seal, "hktCommCreate", deadline));
    HKT_ASSIGN(const std::vector<Bid> bids, hear(*exchange, mine));
    HKT_TRY(agree(bids, ranks));
    return Birth(*exchange, parent.parts(), std::move(ranks), bids.front().bits).run(settings);
  });
}

Status finalize(Communicator& comm) {
  return in_call(comm, "finalize()", [&]() -> Status {
    HKT_ASSIGN(const std::unique_ptr<Exchange> exchange,
               Exchange::of_all(comm, Meeting::finalize, comm.parts().timeout_ms));
    HKT_TRY(exchange->all_gather(""));
    exchange->finalize_communicator();
    return {};
  });
}

}  // namespace hocket
