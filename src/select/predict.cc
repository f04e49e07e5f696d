#include "select/predict.h"

#include <algorithm>
#include <vector>

#include "algorithms/zero_copy.h"
#include "schedule/drive.h"
#include "schedule/lower.h"
#include "schedule/shape.h"

namespace hocket::select {
namespace {

constexpr uint64_t kNever = Predictor::kNever;
constexpr uint32_t kElem = 4;          // bytes
constexpr uint32_t kCalls = 3;         // of a series, where a call waits for all ranks
constexpr uint32_t kFillings = 4;      // of all slots of a link: so many rounds, or calls that do not wait, are run
constexpr uint64_t kFirst = 4 * 1024;  // bytes
constexpr uint64_t kLend = 4 * 1024;   // as the engine's

constexpr uint64_t cost_of(uint64_t bytes, uint64_t per_kib) { return bytes * per_kib / 1024; }

// The part of `all` that is beyond `kib`, of 1024.
constexpr uint64_t beyond(uint64_t kib, uint64_t all) { return all <= kib * 1024 ? 0 : 1024 - kib * 1024 * 1024 / all; }

constexpr uint64_t more(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

Shape shape_of(const PlanInfo& info, uint64_t bytes, uint64_t round_elems) {
  if (layout(info.collective) == Layout::round_major)
    return {bytes / kElem, kElem, info.chunks[static_cast<size_t>(Buf::out)], round_elems};
  BlockLayout b;
  b.collective = info.collective;
  b.blocks = info.nranks;
  b.elem_size = kElem;
  b.elems = bytes / kElem / info.nranks;
  b.round_elems = round_elems;
  return Shape(b);
}

}  // namespace

// How much of a call is run: `rounds` of its rounds, `calls` times.
struct Extent {
  uint32_t rounds, calls;
};

// One run of a plan on the model.
class Rehearsal {
 public:
  Rehearsal(const Predictor& p, uint64_t bytes, const Shape& shape, Extent extent);
  // When the last rank has finished.
  uint64_t run();

 private:
  struct RankState {
    std::vector<Cursor> cursors;
    uint32_t call = 0;
    uint32_t lane = 0;  // that is looked at next
  };
  struct LinkState {
    uint64_t pop = 0, push = 0;          // what a message costs its ends
    uint64_t pop_kib = 0, push_kib = 0;  // and every KiB of it
    uint64_t first_kib = 0;
    uint64_t latency = 0;  // until one end sees what the other has done
    bool socket = false;
    bool read = false;       // large messages are
    uint64_t fetch_kib = 0;  // what a KiB of them costs
    uint32_t pushed = 0, popped = 0;
  };
  struct CpuState {
    std::vector<uint32_t> ranks;
    size_t at = 0;    // whose turn it is
    size_t idle = 0;  // turns in a row without a step
    uint64_t now = 0;
    uint64_t known = kNever;  // when the next thing that is on its way to its ranks is here
    uint64_t strain = 0;      // for every KiB of anything
    uint64_t polls = 0;       // what looking for something costs a rank that waits, beside its turn
    bool asleep = false;      // until another CPU does something for its ranks
  };
  // What the step driver asks of a rank at the time of its CPU.
  struct Machine {
    const Rehearsal& r;
    CpuState& cpu;
    uint32_t rank;

    bool dep_done(const Dep& d, uint32_t round) const {
      const Cursor& c = r.ranks_[rank].cursors[d.lane];
      return c.round > round || (c.round == round && c.step > d.step);
    }
    bool pop_ready(uint32_t k) const {
      const uint32_t id = r.in(rank, k);
      const LinkState& l = r.links_[id];
      return l.pushed != l.popped && here(r.seen_[id * r.depth_ + l.popped % r.depth_]);
    }
    bool push_ready(uint32_t k, const Step&) const {
      const uint32_t id = r.out(rank, k);
      const LinkState& l = r.links_[id];
      return l.pushed - l.popped < r.depth_ && here(r.freed_[id * r.depth_ + l.pushed % r.depth_]);
    }
    bool here(uint64_t time) const {
      if (time <= cpu.now) return true;
      cpu.known = std::min(cpu.known, time);
      return false;
    }
  };

  uint32_t in(uint32_t rank, uint32_t k) const { return p_.wiring_.first_in[rank] + k; }
  uint32_t out(uint32_t rank, uint32_t k) const { return p_.wiring_.out[p_.wiring_.first_out[rank] + k]; }
  CpuState& cpu_of(uint32_t rank) { return cpus_[cpu_index(rank)]; }
  size_t cpu_index(uint32_t rank) const {
    return size_t{rank} / per_machine_ * p_.facts_.cpus + rank % per_machine_ % p_.facts_.cpus;
  }
  void place_ranks();
  void price_links();
  bool reads(const LinkState& l, const Step& s, uint64_t bytes) const {
    return l.read && s.count == 1 && bytes >= kReadFrom;
  }
  // Every message that the step pushes stays where it is.
  bool leaves(uint32_t rank, const Step& s, uint64_t bytes) const;
  uint64_t step_bytes(const Step& s, uint32_t round) const;
  bool visit(CpuState& cpu, uint32_t rank);
  void execute(CpuState& cpu, uint32_t rank, const Step& s, uint32_t round);
  bool lends(uint32_t rank, const Step& s, uint64_t bytes) const;
  void finish_call(CpuState& cpu, RankState& state);
  void tell(uint32_t rank, uint64_t time);
  void give_way(CpuState& cpu) const;

  const Predictor& p_;
  const uint64_t bytes_;
  const Shape& shape_;
  const Extent extent_;
  const uint32_t depth_, per_machine_;
  std::vector<RankState> ranks_;
  std::vector<LinkState> links_;
  std::vector<uint64_t> seen_, freed_;  // by link and place: when the other end sees it
  std::vector<CpuState> cpus_;
  uint64_t end_ = 0;
  uint32_t left_;  // ranks that have not finished
};

Rehearsal::Rehearsal(const Predictor& p, uint64_t bytes, const Shape& shape, Extent extent)
    : p_(p),
      bytes_(bytes),
      shape_(shape),
      extent_(extent),
      depth_(p.facts_.depth),
      per_machine_((p.facts_.nranks + p.facts_.machines - 1) / p.facts_.machines),
      ranks_(p.facts_.nranks),
      links_(p.wiring_.links.size()),
      seen_(links_.size() * depth_),
      freed_(links_.size() * depth_),
      cpus_(size_t{p.facts_.machines} * p.facts_.cpus),
      left_(p.facts_.nranks) {
  place_ranks();
  price_links();
}

void Rehearsal::place_ranks() {
  for (uint32_t r = 0; r < p_.facts_.nranks; ++r) {
    const auto lanes = static_cast<uint32_t>(p_.plan_.ranks[r].lanes.size());
    for (uint32_t lane = 0; lane < lanes; ++lane) ranks_[r].cursors.push_back({lane, 0, 0, 0});
    cpu_of(r).ranks.push_back(r);
  }
}

void Rehearsal::price_links() {
  const Costs& c = p_.costs_;
  const uint32_t group = (p_.facts_.nranks + p_.facts_.hosts - 1) / p_.facts_.hosts;
  // The slots of a link are used one after the other: calls that follow one another touch all of them.
  std::vector<uint64_t> largest(links_.size()), touched(cpus_.size());
  for (uint32_t r = 0; r < p_.facts_.nranks; ++r) {
    touched[cpu_index(r)] += 2 * bytes_;
    for (const Step& s : p_.plan_.ranks[r].steps)
      for (uint32_t k = 0; k < s.nsend; ++k) {
        const uint32_t id = out(r, s.send + k);
        const uint64_t bytes = step_bytes(s, 0);
        const bool read = p_.read_[p_.wiring_.links[id].tag] && s.count == 1 && bytes >= kReadFrom;
        largest[id] = std::max(largest[id], read ? 0 : bytes);
      }
  }
  for (size_t id = 0; id < links_.size(); ++id) {
    const PlanLink& link = p_.wiring_.links[id];
    LinkState& l = links_[id];
    const size_t from = cpu_index(link.source), to = cpu_index(link.destination);
    touched[from] += depth_ * largest[id];
    if (from != to) touched[to] += depth_ * largest[id];
    if (link.source / group != link.destination / group) {
      l = {c.socket, c.socket, c.socket_kib, c.socket_kib, 0, c.wire, true};
      cpus_[to].polls = c.socket;
    } else if (from != to) {
      l = {c.message + c.cross, c.message, c.pull, c.push, c.first, c.line};
    } else {
      l = {c.message, c.message, c.near, c.near};
    }
    l.read = p_.read_[link.tag] && !l.socket;
    l.fetch_kib = from != to ? c.fetch_kib : 2 * c.near;
  }
  for (size_t cpu = 0; cpu < cpus_.size(); ++cpu) {
    cpus_[cpu].strain = (more(c.mid, c.near) * beyond(c.cache_kib, touched[cpu]) +
                         more(c.far, c.mid) * beyond(c.outer_kib, touched[cpu])) /
                        1024;
    cpus_[cpu].asleep = cpus_[cpu].ranks.empty();
  }
}

uint64_t Rehearsal::step_bytes(const Step& s, uint32_t round) const {
  if (s.count == 0) return 0;
  const Buf b = s.has(kLoad) ? s.src_buf() : s.dst_buf();
  const uint32_t first = s.has(kLoad) ? s.src : s.dst, chunks = p_.plan_.info.chunks[static_cast<size_t>(b)];
  uint64_t bytes = 0;
  for (uint32_t j = 0; j < s.count; ++j) bytes += shape_.span(b, block(first, s.stride, j, chunks), round).bytes;
  return bytes;
}

// Executes one step of a rank: false if none is ready.
bool Rehearsal::visit(CpuState& cpu, uint32_t rank) {
  RankState& state = ranks_[rank];
  if (state.call == extent_.calls) return false;
  Machine machine{*this, cpu, rank};
  const RankSource source{p_.plan_.ranks[rank]};
  const auto lanes = static_cast<uint32_t>(state.cursors.size());
  for (uint32_t tried = 0; tried < lanes; ++tried, state.lane = (state.lane + 1) % lanes) {
    Cursor& c = state.cursors[state.lane];
    if (source.steps(c.lane) == 0) c.round = extent_.rounds;
    if (c.round == extent_.rounds) continue;
    const Step& s = source.step(c.lane, c.step);
    if (!step_ready(source, s, c, machine)) continue;
    execute(cpu, rank, s, c.round);
    c.waiting = 0;
    if (++c.step == source.steps(c.lane)) {
      c.step = 0;
      ++c.round;
    }
    finish_call(cpu, state);
    return true;
  }
  return false;
}

void Rehearsal::finish_call(CpuState& cpu, RankState& state) {
  const auto done = [&](const Cursor& c) { return c.round == extent_.rounds; };
  if (!std::all_of(state.cursors.begin(), state.cursors.end(), done)) return;
  end_ = std::max(end_, cpu.now);
  if (++state.call == extent_.calls) {
    --left_;
    return;
  }
  for (Cursor& c : state.cursors) c.round = 0;
}

// A socket sends an input from where it is.
bool Rehearsal::lends(uint32_t rank, const Step& s, uint64_t bytes) const {
  const bool copies = s.nsend != 0 && s.operands() == 1 && s.has(kLoad) && s.src_buf() == Buf::in;
  return copies && bytes >= kLend && links_[out(rank, s.send)].socket;
}

bool Rehearsal::leaves(uint32_t rank, const Step& s, uint64_t bytes) const {
  for (uint32_t k = 0; k < s.nsend; ++k)
    if (!reads(links_[out(rank, s.send + k)], s, bytes)) return false;
  return s.nsend != 0;
}

void Rehearsal::execute(CpuState& cpu, uint32_t rank, const Step& s, uint32_t round) {
  const uint64_t bytes = step_bytes(s, round), began = cpu.now;
  const uint64_t own = cost_of(bytes, p_.costs_.near + cpu.strain);
  const bool folds = s.operands() > 1;
  const bool loads = s.has(kLoad) && !lends(rank, s, bytes) && (folds || s.has(kStore) || !leaves(rank, s, bytes));
  // What is all of the value is fetched to where it is stored.
  const bool placed = !folds && s.nrecv == 1 && reads(links_[in(rank, s.recv)], s, bytes);
  cpu.now += p_.costs_.step + (loads ? own : 0) + (s.has(kStore) && !placed ? own : 0);
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    const uint32_t id = in(rank, s.recv + k);
    const LinkState& l = links_[id];
    if (reads(l, s, bytes)) {
      cpu.now += l.pop + p_.costs_.fetch + cost_of(bytes, l.fetch_kib + 2 * cpu.strain) +
                 (folds ? cost_of(bytes, p_.costs_.near) : 0);
      continue;
    }
    cpu.now += l.pop + cost_of(bytes, l.pop_kib + cpu.strain);
    const bool waited = began - seen_[id * depth_ + l.popped % depth_] < l.latency;
    if (waited) cpu.now += cost_of(std::min(bytes, kFirst), l.first_kib);
  }
  for (uint32_t k = 0; k < s.nsend; ++k) {
    const LinkState& l = links_[out(rank, s.send + k)];
    cpu.now += l.push + (reads(l, s, bytes) ? 0 : cost_of(bytes, l.push_kib + cpu.strain));
  }
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    const uint32_t id = in(rank, s.recv + k);
    LinkState& l = links_[id];
    freed_[id * depth_ + l.popped++ % depth_] = cpu.now + l.latency;
    tell(p_.wiring_.links[id].source, cpu.now + l.latency);
  }
  for (uint32_t k = 0; k < s.nsend; ++k) {
    const uint32_t id = out(rank, s.send + k);
    LinkState& l = links_[id];
    uint64_t arrives = cpu.now + l.latency;
    if (l.socket) arrives -= cost_of(bytes, l.push_kib);  // what has been sent is received while the rest is sent
    seen_[id * depth_ + l.pushed++ % depth_] = arrives;
    tell(p_.wiring_.links[id].destination, arrives);
  }
}

// There is something for a rank at `time`.
void Rehearsal::tell(uint32_t rank, uint64_t time) {
  CpuState& cpu = cpu_of(rank);
  cpu.known = std::min(cpu.known, time);
  cpu.idle = 0;
  cpu.asleep = false;
}

void Rehearsal::give_way(CpuState& cpu) const {
  if (cpu.ranks.size() == 1) return;
  cpu.at = (cpu.at + 1) % cpu.ranks.size();
  cpu.now += p_.costs_.turn + cpu.polls;
}

uint64_t Rehearsal::run() {
  while (left_ != 0) {
    CpuState* next = nullptr;
    for (CpuState& c : cpus_)
      if (!c.asleep && (next == nullptr || c.now < next->now)) next = &c;
    if (next == nullptr) return kNever;
    CpuState& cpu = *next;
    if (visit(cpu, cpu.ranks[cpu.at])) {
      cpu.idle = 0;
      continue;
    }
    if (++cpu.idle < cpu.ranks.size()) {
      give_way(cpu);
      continue;
    }
    // Nobody here can go on: time passes until something comes.
    cpu.idle = 0;
    if (cpu.known == kNever) {
      cpu.asleep = true;
      continue;
    }
    give_way(cpu);
    cpu.now = std::max(cpu.now, cpu.known);
    cpu.known = kNever;
  }
  return end_;
}

Result<Predictor> Predictor::make(const CatalogEntry& entry, const Facts& facts, const Costs& costs, Way way) {
  Predictor p(facts, costs);
  p.plan_ = entry.plan(facts.nranks, 0);
  p.round_elems_ = round_elems(p.plan_.info, kElem, facts.slot_bytes);
  if (p.round_elems_ == 0)
    return error(hktInvalidArgument, "%s on %u ranks puts %u blocks into a message, more than slots of %u bytes hold",
                 entry.name, facts.nranks, p.plan_.info.message_blocks, facts.slot_bytes);
  HKT_ASSIGN(p.wiring_, wire(p.plan_));
  if (const ZeroCopy* const read = reading(entry.collective, entry.name); way == Way::reading && read != nullptr)
    for (uint32_t tag = 0; tag < kMaxTags; ++tag) p.read_[tag] = read->protocol[tag] == Protocol::mapped;
  return p;
}

uint64_t Predictor::ps(uint64_t bytes) const {
  const Shape shape = shape_of(plan_.info, bytes, round_elems_);
  const auto run = [&](Extent e) { return Rehearsal(*this, bytes, shape, e).run(); };
  const uint32_t rounds = shape.rounds(), filled = kFillings * facts_.depth;
  // The pace once all is filled that can be: the difference of two runs, in which beginning and end cancel out.
  if (bytes < kSeries) {
    const uint32_t calls = is_rooted(plan_.info.collective) ? filled : kCalls, fewer = std::max(1u, calls / 2);
    const uint64_t all = run({rounds, calls}), some = run({rounds, fewer});
    return all == kNever ? kNever : more(all, some) / (calls - fewer);
  }
  if (rounds <= filled) return run({rounds, 1});
  const uint64_t all = run({filled, 1}), half = run({filled / 2, 1});
  return all == kNever ? kNever : all + more(all, half) * (rounds - filled) / (filled - filled / 2);
}

}  // namespace hocket::select
