// The race pass: the accesses of every step against those before, by vector clocks.
//
// Per chunk and round it keeps the last write and the reads since, as events. A write must follow all of them, a read
// the write: whatever comes earlier is ordered by that already. Two rounds (and as many more as a dependency looks
// back) show every race: order leads forward in rounds only, so accesses that conflict in rounds q and q + d are
// ordered by those in between, or the pair q, q + 1 shows.
#include <algorithm>
#include <array>
#include <vector>

#include "schedule/happens_before.h"
#include "schedule/run_all.h"
#include "schedule/verify.h"

namespace hocket {
namespace {

constexpr uint32_t kNone = ~0u;

class RaceMachine {
 public:
  RaceMachine(Network& network, const Lowering& lowering, Placement placement);

  void enter(uint32_t rank, uint32_t lane) {
    rank_ = rank;
    first_in_ = wiring_.first_in[rank];
    out_ = wiring_.out.data() + wiring_.first_out[rank];
    order_.enter(rank, lane);
  }
  bool failed() const { return !status_.ok(); }
  bool pop_ready(uint32_t k) const {
    const Flow& f = network_.flow(first_in_ + k);
    return f.pushed != f.popped && !failed();
  }
  bool push_ready(uint32_t k, const Step&) const {
    const Flow& f = network_.flow(out_[k]);
    return f.pushed - f.popped < lowering_.effective_depth() && !failed();
  }
  void execute(const Step& s, const Cursor& c);

  Status status() { return std::move(status_); }
  // After the run: nobody touches a rank's memory once it has returned.
  Status check_returns() const;

 private:
  struct Place {
    uint32_t rank;
    Buf buf;
    uint32_t chunk, round;  // round is 0 for scratch
  };
  // Last write and the reads since; `more` leads to reads that are not ordered among themselves.
  struct History {
    Moment write, read;
    uint32_t more = kNone;
  };
  struct Reader {
    Moment event;
    uint32_t next = kNone;
  };

  Protocol protocol(const PlanLink& l) const { return lowering_.protocol[l.tag]; }
  History& history(const Place& p) { return histories_[index(p)]; }
  size_t index(const Place& p) const;
  Place place_of(size_t index) const;
  std::string name(const Place& p) const;
  Error race(const Place& p, const char* what, const char* earlier_what, Moment earlier) const;
  struct Range {
    Buf buf;
    uint32_t first, stride;
    uint64_t count;
  };
  static Range loaded(const Step& s) { return {s.src_buf(), s.src, s.stride, loaded_blocks(s)}; }
  static Range stored(const Step& s) { return {s.dst_buf(), s.dst, s.stride, s.count}; }
  static Range value(const Step& s) { return {value_buf(s), value_chunk(s), s.stride, s.count}; }
  Place place(uint32_t rank, const Range& r, uint32_t j, uint32_t round) const {
    return {rank, r.buf, block(r.first, r.stride, j, chunks_[static_cast<size_t>(r.buf)]),
            r.buf == Buf::scratch ? 0 : round};
  }
  void read(uint32_t rank, const Range& range, uint32_t round);
  void write(uint32_t rank, const Range& range, uint32_t round);
  void read(const Place& p);
  void write(const Place& p);
  void drop_readers(History& h);
  void still_there(const Range& range, const Cursor& c, uint32_t link, uint32_t rank);
  // The step that has pushed what is popped next on a mapped link.
  const Step& mapped_step(uint32_t link) const {
    const PlanLink& l = wiring_.links[link];
    return plan_.ranks[l.source]
        .steps[pushing_[l.first + network_.flow(link).popped % l.messages] - wiring_.first_step[l.source]];
  }

  Network& network_;
  const Plan& plan_;
  const Wiring& wiring_;
  const Lowering& lowering_;
  Placement placement_;
  HappensBefore order_;
  std::array<uint32_t, kBufs> chunks_{};
  size_t per_rank_ = 0;
  std::vector<History> histories_;
  std::vector<Reader> readers_;
  std::vector<uint32_t> free_readers_;
  std::vector<uint32_t> pushing_,
      popping_;  // steps by message; empty unless a link is mapped (pushing) or direct (popping)
  uint32_t rank_ = 0, first_in_ = 0;
  const uint32_t* out_ = nullptr;
  Status status_;
};

RaceMachine::RaceMachine(Network& network, const Lowering& lowering, Placement placement)
    : network_(network),
      plan_(network.plan()),
      wiring_(network.wiring()),
      lowering_(lowering),
      placement_(placement),
      order_(network, &lowering),
      chunks_(plan_.info.chunks) {
  per_rank_ = size_t{network.rounds()} * (chunks_[0] + chunks_[1]) + chunks_[2];
  histories_.resize(per_rank_ * plan_.info.nranks);
  // What a rank did with its memory before the call was done when it entered.
  for (uint32_t r = 0; r < plan_.info.nranks; ++r)
    for (size_t i = 0; i < per_rank_ && !plan_.ranks[r].lanes.empty(); ++i)
      histories_[r * per_rank_ + i].write = {wiring_.first_lane[r], kEntryTime};
  for (const PlanLink& l : wiring_.links) {
    if (protocol(l) == Protocol::mapped && pushing_.empty()) pushing_ = pushing_steps(plan_, wiring_);
    if (protocol(l) == Protocol::direct && popping_.empty()) popping_ = popping_steps(plan_, wiring_);
  }
}

size_t RaceMachine::index(const Place& p) const {
  const size_t base = p.rank * per_rank_, rounds = network_.rounds();
  const Cell c = cell(plan_.info, placement_, p.rank, {p.buf, p.chunk});
  if (c.buf == Buf::in) return base + size_t{p.round} * chunks_[0] + c.chunk;
  if (c.buf == Buf::out) return base + rounds * chunks_[0] + size_t{p.round} * chunks_[1] + c.chunk;
  return base + rounds * (chunks_[0] + chunks_[1]) + c.chunk;
}

RaceMachine::Place RaceMachine::place_of(size_t index) const {
  const size_t in = size_t{network_.rounds()} * chunks_[0], out = size_t{network_.rounds()} * chunks_[1];
  const auto at = [&](Buf b, size_t i) {
    const uint32_t chunks = chunks_[static_cast<size_t>(b)];
    return Place{static_cast<uint32_t>(index / per_rank_), b, static_cast<uint32_t>(i % chunks),
                 static_cast<uint32_t>(b == Buf::scratch ? 0 : i / chunks)};
  };
  const size_t i = index % per_rank_;
  if (i < in) return at(Buf::in, i);
  return i < in + out ? at(Buf::out, i - in) : at(Buf::scratch, i - in - out);
}

std::string RaceMachine::name(const Place& p) const {
  std::string text = chunk_name(p.buf, p.chunk) + format(" of rank %u", p.rank);
  if (p.buf != Buf::scratch) text += format(" in round %u", p.round);
  return text;
}

Error RaceMachine::race(const Place& p, const char* what, const char* earlier_what, Moment earlier) const {
  return error(hktInvalidArgument, "race (%s): %s %s %s, and nothing orders that after the %s by %s",
               placement_ == Placement::in_place ? "in place" : "out of place", order_.name(order_.now()).c_str(), what,
               name(p).c_str(), earlier_what, order_.name(earlier).c_str());
}

void RaceMachine::drop_readers(History& h) {
  h.read = {};
  for (uint32_t i = h.more; i != kNone; i = readers_[i].next) free_readers_.push_back(i);
  h.more = kNone;
}

void RaceMachine::read(const Place& p) {
  History& h = history(p);
  if (!order_.before(h.write)) {
    if (!failed()) status_ = race(p, "reads", "write", h.write);
    return;
  }
  if (h.read.time == 0 || (h.more == kNone && order_.before(h.read))) {
    h.read = order_.now();
    return;
  }
  uint32_t id;
  if (free_readers_.empty()) {
    id = static_cast<uint32_t>(readers_.size());
    readers_.emplace_back();
  } else {
    id = free_readers_.back();
    free_readers_.pop_back();
  }
  readers_[id] = {order_.now(), h.more};
  h.more = id;
}

void RaceMachine::write(const Place& p) {
  History& h = history(p);
  Moment earlier = h.write;
  const char* what = "write";
  if (order_.before(h.write)) {
    what = "read";
    earlier = h.read;
    for (uint32_t i = h.more; i != kNone && order_.before(earlier); i = readers_[i].next) earlier = readers_[i].event;
  }
  if (!order_.before(earlier)) {
    if (!failed()) status_ = race(p, "writes", what, earlier);
    return;
  }
  drop_readers(h);
  h.write = order_.now();
}

void RaceMachine::read(uint32_t rank, const Range& range, uint32_t round) {
  for (uint32_t j = 0; j < range.count; ++j) read(place(rank, range, j, round));
}

void RaceMachine::write(uint32_t rank, const Range& range, uint32_t round) {
  for (uint32_t j = 0; j < range.count; ++j) write(place(rank, range, j, round));
}

// A message that does not travel in a slot must find its chunk, when it is popped, as it was pushed: not written again,
// though the write be ordered, and, where the push has written the chunk itself, not read as if it were still the old
// one.
void RaceMachine::still_there(const Range& range, const Cursor& c, uint32_t link, uint32_t rank) {
  const PlanLink& l = wiring_.links[link];
  const bool direct = protocol(l) == Protocol::direct;
  for (uint32_t j = 0; j < range.count && !failed(); ++j) {
    const Place p = place(rank, range, j, c.round);
    const History& h = history(p);
    const bool overwritten = direct ? !(h.write == order_.sender(link)) : !order_.sender_knows(link, h.write);
    if (!overwritten && !(direct && h.read.time != 0)) continue;
    status_ = error(hktInvalidArgument,
                    "race (%s): %s round %u takes the message of %s that lies in %s, but %s has %s it meanwhile",
                    placement_ == Placement::in_place ? "in place" : "out of place",
                    step_name(plan_, rank_, c.lane, c.step).c_str(), c.round, link_name(l).c_str(), name(p).c_str(),
                    order_.name(overwritten ? h.write : h.read).c_str(), overwritten ? "written" : "read");
  }
}

void RaceMachine::execute(const Step& s, const Cursor& c) {
  if (failed()) return;
  for (uint32_t k = 0; k < s.nrecv && s.count > 0; ++k) {
    const uint32_t link = first_in_ + s.recv + k;
    const PlanLink& l = wiring_.links[link];
    if (protocol(l) == Protocol::mapped)
      still_there(value(mapped_step(link)), c, link, l.source);
    else if (protocol(l) == Protocol::direct)
      still_there(stored(s), c, link, rank_);
  }
  order_.begin(s, c);
  bool is_there = false;  // what the step stores: its producer has written it
  for (uint32_t k = 0; k < s.nrecv && s.count > 0; ++k) {
    const PlanLink& l = wiring_.links[first_in_ + s.recv + k];
    if (protocol(l) == Protocol::direct) is_there = true;
    if (protocol(l) != Protocol::mapped) continue;
    read(l.source, value(mapped_step(first_in_ + s.recv + k)), c.round);
  }
  if (s.has(kLoad)) read(rank_, loaded(s), c.round);
  if (s.has(kStore) && !is_there) write(rank_, stored(s), c.round);
  if (s.has(kStore) && is_there) read(rank_, stored(s), c.round);
  for (uint32_t k = 0; k < s.nsend && s.count > 0; ++k) {
    const uint32_t link = out_[s.send + k];
    const PlanLink& l = wiring_.links[link];
    if (protocol(l) != Protocol::direct) continue;
    const uint32_t message = l.first + network_.flow(link).pushed % l.messages;
    const Step& to = plan_.ranks[l.destination].steps[popping_[message] - wiring_.first_step[l.destination]];
    write(l.destination, stored(to), c.round);
  }
  order_.end(s, c);
}

Status RaceMachine::check_returns() const {
  for (uint32_t r = 0; r < plan_.info.nranks; ++r) {
    if (plan_.ranks[r].lanes.empty()) continue;
    const std::vector<uint32_t> clock = order_.returned(r);
    auto late = [&](Moment e) { return clock[e.lane] < e.time; };
    for (size_t i = r * per_rank_; i < (r + 1) * per_rank_; ++i) {
      const History& h = histories_[i];
      Moment e = h.write;
      const bool writes = late(e);
      if (!writes) {
        e = h.read;
        for (uint32_t k = h.more; k != kNone && !late(e); k = readers_[k].next) e = readers_[k].event;
      }
      if (late(e))
        return error(hktInvalidArgument, "rank %u may have returned from the call while %s still %s %s", r,
                     order_.name(e).c_str(), writes ? "writes" : "reads", name(place_of(i)).c_str());
    }
  }
  return {};
}

}  // namespace

Status verify_races(const Plan& plan, const Lowering& lowering, Placement placement, RaceOptions options) {
  HKT_ASSIGN(const Wiring wiring, wire(plan));
  HKT_TRY(check_lowering(plan, wiring, lowering));
  uint32_t rounds = options.rounds;
  if (rounds == 0) {
    uint32_t lag = 0;
    for (const RankPlan& r : plan.ranks)
      for (const Dep& d : r.deps) lag = std::max(lag, uint32_t{d.lag});
    rounds = lag + 2;
  }
  HKT_TRY(check_places(plan.info, rounds));
  if (uint64_t{wiring.messages} * rounds >= kNone)
    return error(hktInvalidArgument, "%u messages in each of %u rounds are too many to check", wiring.messages, rounds);
  Network network(plan, wiring, rounds, Room::bounded);
  RaceMachine machine(network, lowering, placement);
  HKT_TRY(network.run(machine));
  HKT_TRY(machine.status());
  return machine.check_returns();
}

}  // namespace hocket
