#include "schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "schedule/drive.h"
#include "schedule/lower.h"
#include "schedule/shape.h"
#include "schedule/verify.h"

namespace hocket {
namespace {

constexpr uint64_t kMostLinks = 1u << 24;
constexpr uint32_t kNone = 0xffffffff;

// One place of a link. `time` is when the message is there in full, then when the sender knows that the place is free
// again.
struct Slot {
  double time = 0;
  uint64_t bytes = 0;
};

struct SimLink {
  uint32_t producer = kNone, consumer = kNone;  // lanes
  uint32_t destination = 0;                     // rank
  uint32_t level = 0;                           // 0 or 1: of NetworkModel
  uint32_t pushes = 0, pops = 0;                // per round
  uint32_t capacity = 0;
  size_t first_slot = 0;
  uint32_t pushed = 0, arrived = 0, popped = 0;  // so far
};

struct LaneState {
  uint32_t rank = 0;
  uint32_t steps = 0;
  Cursor cursor;
  Step step;           // at the cursor
  double ready = 0;    // when the last of the conditions so far was met
  uint64_t bytes = 0;  // of a block range of `step` in this round
  bool blocked = false;
  bool done = false;
};

enum class EventKind : uint8_t { start, finish, head };

struct Event {
  double time;
  uint64_t order;   // of creation: what happens at one time happens in this order
  uint32_t target;  // lane (start, finish) or link (head)
  EventKind kind;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

class Simulation {
 public:
  Simulation(const StepSource& source, const NetworkModel& network, const SimCall& call, const Shape& shape)
      : source_(source), network_(network), call_(call), shape_(shape), n_(source.info().nranks) {}

  Result<SimReport> run() {
    HKT_TRY(number());
    HKT_TRY(join_links());
    HKT_TRY(count_messages());
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].done = lanes_[lane].steps == 0;
      if (!lanes_[lane].done) fetch(lane);
    }
    while (next_event()) {
      const Event e = event_;
      if (e.kind == EventKind::start) {
        start(e.target);
      } else if (e.kind == EventKind::finish) {
        finish(e.target);
      } else {
        head(e.target);
      }
    }
    for (const LaneState& lane : lanes_)
      if (!lane.done) return standstill(lane);
    report_.rounds = shape_.rounds();
    report_.time_us = *std::max_element(report_.finish_us.begin(), report_.finish_us.end());
    return std::move(report_);
  }

 private:
  // What step_ready asks of one lane.
  struct Machine {
    Simulation& sim;
    LaneState& lane;

    bool dep_done(const Dep& d, uint32_t round) const {
      const LaneState& other = sim.lanes_[sim.first_lane_[lane.rank] + d.lane];
      return other.cursor.round > round || (other.cursor.round == round && other.cursor.step > d.step);
    }
    bool pop_ready(uint32_t k) const {
      const SimLink& link = sim.links_[sim.first_in_[lane.rank] + k];
      if (link.arrived == link.popped) return false;
      lane.ready = std::max(lane.ready, sim.slot(link, link.popped).time);
      return true;
    }
    bool push_ready(uint32_t k, const Step&) const {
      const SimLink& link = sim.links_[sim.out_[sim.first_out_[lane.rank] + k]];
      if (link.pushed - link.popped == link.capacity) return false;
      lane.ready = std::max(lane.ready, sim.slot(link, link.pushed).time);
      return true;
    }
  };
  struct RankView {
    const StepSource& source;
    uint32_t rank;
    Dep dep(uint32_t lane, uint32_t i, uint32_t d) const { return source.dep(rank, lane, i, d); }
  };

  // Numbers lanes and links of all ranks through.
  Status number() {
    uint64_t links = 0, out = 0, steps = 0;
    for (uint32_t r = 0; r < n_; ++r) {
      first_lane_.push_back(static_cast<uint32_t>(lanes_.size()));
      first_in_.push_back(static_cast<uint32_t>(links));
      first_out_.push_back(static_cast<uint32_t>(out));
      for (uint32_t lane = 0; lane < source_.lanes(r); ++lane) {
        LaneState state;
        state.rank = r;
        state.steps = source_.steps(r, lane);
        state.cursor.lane = lane;
        steps += uint64_t{state.steps} * shape_.rounds();
        lanes_.push_back(state);
      }
      links += source_.links_in(r);
      out += source_.links_out(r);
      if (links > kMostLinks || out > kMostLinks)
        return error(hktInvalidArgument, "%s on %u ranks has more than %llu links: simulate fewer ranks",
                     source_.info().name.c_str(), n_, static_cast<unsigned long long>(kMostLinks));
    }
    if (steps > call_.max_steps)
      return error(hktInvalidArgument,
                   "%s on %u ranks has %llu steps in %u rounds, more than the limit of %llu: use larger "
                   "slots, fewer ranks, or raise the limit",
                   source_.info().name.c_str(), n_, static_cast<unsigned long long>(steps), shape_.rounds(),
                   static_cast<unsigned long long>(call_.max_steps));
    first_lane_.push_back(static_cast<uint32_t>(lanes_.size()));
    first_in_.push_back(static_cast<uint32_t>(links));
    first_out_.push_back(static_cast<uint32_t>(out));
    links_.resize(links);
    out_.assign(out, kNone);
    out_free_.assign(n_, 0);
    in_free_.assign(n_, 0);
    work_free_.assign(n_, 0);
    report_.finish_us.assign(n_, 0);
    return {};
  }

  // Finds the in link of the peer for every out link: both sorted by source, then destination, then tag.
  Status join_links() {
    struct Entry {
      uint32_t destination, tag, link;
      bool operator<(const Entry& b) const {
        return destination != b.destination ? destination < b.destination : tag < b.tag;
      }
    };
    std::vector<uint32_t> start(n_ + 1, 0);
    for (uint32_t r = 0; r < n_; ++r)
      for (uint32_t k = 0; k < source_.links_in(r); ++k) ++start[source_.in(r, k).rank + 1];
    for (uint32_t r = 0; r < n_; ++r) start[r + 1] += start[r];
    std::vector<Entry> entries(links_.size());
    std::vector<uint32_t> next(start.begin(), start.end() - 1);
    for (uint32_t r = 0; r < n_; ++r) {
      for (uint32_t k = 0; k < source_.links_in(r); ++k) {
        const Peer p = source_.in(r, k);
        entries[next[p.rank]++] = {r, p.tag, first_in_[r] + k};
        links_[first_in_[r] + k].destination = r;
        links_[first_in_[r] + k].level = level(p.rank, r);
      }
    }
    std::vector<Entry> out;
    for (uint32_t r = 0; r < n_; ++r) {
      out.clear();
      for (uint32_t k = 0; k < source_.links_out(r); ++k)
        out.push_back({source_.out(r, k).rank, source_.out(r, k).tag, k});
      std::sort(out.begin(), out.end());
      std::sort(entries.begin() + start[r], entries.begin() + start[r + 1]);
      const uint32_t expected = start[r + 1] - start[r];
      for (uint32_t k = 0; k < std::max<size_t>(out.size(), expected); ++k) {
        const bool both = k < out.size() && k < expected;
        const Entry& have = k < out.size() ? out[k] : entries[start[r] + k];
        if (!both || have < entries[start[r] + k] || entries[start[r] + k] < have)
          return error(hktInvalidArgument, "link %u -> %u tag %u is not in the tables of both ranks", r,
                       have.destination, have.tag);
        out_[first_out_[r] + have.link] = entries[start[r] + k].link;
      }
    }
    return {};
  }

  Status count_messages() {
    for (uint32_t id = 0; id < lanes_.size(); ++id) {
      const LaneState& lane = lanes_[id];
      for (uint32_t i = 0; i < lane.steps; ++i) {
        const Step s = source_.step(lane.rank, lane.cursor.lane, i);
        for (uint32_t k = 0; k < s.nrecv; ++k) {
          SimLink& link = links_[first_in_[lane.rank] + s.recv + k];
          link.consumer = id;
          ++link.pops;
        }
        for (uint32_t k = 0; k < s.nsend; ++k) {
          SimLink& link = links_[out_[first_out_[lane.rank] + s.send + k]];
          link.producer = id;
          ++link.pushes;
        }
      }
    }
    size_t slots = 0;
    for (SimLink& link : links_) {
      if (link.pushes != link.pops || link.pushes == 0)
        return error(hktInvalidArgument, "a link to rank %u has %u pushes and %u pops per round", link.destination,
                     link.pushes, link.pops);
      link.capacity = static_cast<uint32_t>(std::min(uint64_t{call_.depth}, uint64_t{link.pushes} * shape_.rounds()));
      link.first_slot = slots;
      slots += link.capacity;
    }
    slots_.resize(slots);
    return {};
  }

  uint32_t level(uint32_t a, uint32_t b) const {
    return network_.group == 0 || a / network_.group == b / network_.group ? 0 : 1;
  }
  Slot& slot(const SimLink& link, uint32_t message) { return slots_[link.first_slot + message % link.capacity]; }

  // What happens at once need not go through the heap; it comes after what the heap has for this moment, which is
  // older.
  void at(double time, EventKind kind, uint32_t target) {
    if (time <= now_) {
      at_once_.push_back({now_, 0, target, kind});
      return;
    }
    events_.push_back({time, created_++, target, kind});
    std::push_heap(events_.begin(), events_.end(), Later());
  }
  bool next_event() {
    if (!events_.empty() && (at_once_.empty() || events_.front().time <= now_)) {
      std::pop_heap(events_.begin(), events_.end(), Later());
      event_ = events_.back();
      events_.pop_back();
      now_ = event_.time;
      return true;
    }
    if (at_once_.empty()) return false;
    event_ = at_once_.front();
    at_once_.pop_front();
    return true;
  }

  // Takes the next step of a lane and its conditions as far as they are met now.
  void fetch(uint32_t id) {
    LaneState& lane = lanes_[id];
    lane.step = source_.step(lane.rank, lane.cursor.lane, lane.cursor.step);
    lane.ready = now_;
    poll(id);
  }
  void poll(uint32_t id) {
    LaneState& lane = lanes_[id];
    Machine machine{*this, lane};
    lane.blocked = !step_ready(RankView{source_, lane.rank}, lane.step, lane.cursor, machine);
    if (!lane.blocked) at(std::max(lane.ready, now_), EventKind::start, id);
  }
  void wake(uint32_t id) {
    if (lanes_[id].blocked) poll(id);
  }

  void start(uint32_t id) {
    LaneState& lane = lanes_[id];
    const Step& s = lane.step;
    lane.bytes = step_bytes(lane);
    const double bytes = static_cast<double>(lane.bytes);
    double work = 0;
    if (s.operands() > 1)
      work = bytes * network_.gamma_us_per_byte * (s.operands() - 1);
    else if (s.has(kStore))
      work = bytes * network_.copy_us_per_byte;
    if (work == 0) return finish(id);
    work_free_[lane.rank] = std::max(work_free_[lane.rank], now_) + work;
    at(work_free_[lane.rank], EventKind::finish, id);
  }

  uint64_t step_bytes(const LaneState& lane) {
    const Step& s = lane.step;
    if (s.count == 0) return 0;
    const Buf b = s.has(kLoad) ? s.src_buf() : s.dst_buf();
    const uint64_t chunk = s.has(kLoad) ? s.src : s.dst, chunks = source_.info().chunks[static_cast<size_t>(b)];
    uint64_t bytes = 0;
    for (uint64_t j = 0; j < s.count; ++j)
      bytes += shape_.span(b, static_cast<uint32_t>((chunk + j * s.stride) % chunks), lane.cursor.round).bytes;
    return bytes;
  }

  void finish(uint32_t id) {
    LaneState& lane = lanes_[id];
    const Step s = lane.step;
    for (uint32_t k = 0; k < s.nrecv; ++k) {
      SimLink& link = links_[first_in_[lane.rank] + s.recv + k];
      slot(link, link.popped++).time = now_ + network_.alpha_us[link.level];
      wake(link.producer);
    }
    for (uint32_t k = 0; k < s.nsend; ++k) send(lane, out_[first_out_[lane.rank] + s.send + k]);
    lane.cursor.waiting = 0;
    if (++lane.cursor.step == lane.steps) {
      lane.cursor.step = 0;
      lane.done = ++lane.cursor.round == shape_.rounds();
      if (lane.done) report_.finish_us[lane.rank] = std::max(report_.finish_us[lane.rank], now_);
    }
    if (!lane.done) fetch(id);
    for (uint32_t other = first_lane_[lane.rank]; other < first_lane_[lane.rank + 1]; ++other) wake(other);
  }

  void send(const LaneState& lane, uint32_t id) {
    SimLink& link = links_[id];
    const double leaves = std::max(now_, out_free_[lane.rank]);
    out_free_[lane.rank] = leaves + static_cast<double>(lane.bytes) * network_.beta_us_per_byte[link.level];
    slot(link, link.pushed++).bytes = lane.bytes;
    ++report_.messages[link.level];
    report_.bytes[link.level] += lane.bytes;
    at(leaves + network_.alpha_us[link.level], EventKind::head, id);
  }

  void head(uint32_t id) {
    SimLink& link = links_[id];
    Slot& message = slot(link, link.arrived++);
    double& free = in_free_[link.destination];
    free = std::max(now_, free) + static_cast<double>(message.bytes) * network_.beta_us_per_byte[link.level];
    message.time = free;
    wake(link.consumer);
  }

  Error standstill(const LaneState& lane) const {
    static constexpr const char* kWaits[] = {"another lane", "a message", "room in a link"};
    return error(hktInvalidArgument,
                 "rank %u lane %u step %u round %u waits for %s for ever: the plan deadlocks with links of depth %u",
                 lane.rank, lane.cursor.lane, lane.cursor.step, lane.cursor.round,
                 kWaits[static_cast<size_t>(wait_kind(lane.step, lane.cursor))], call_.depth);
  }

  const StepSource& source_;
  const NetworkModel& network_;
  const SimCall& call_;
  const Shape shape_;
  const uint32_t n_;
  std::vector<uint32_t> first_lane_, first_in_, first_out_;  // by rank
  std::vector<LaneState> lanes_;
  std::vector<SimLink> links_;  // by first_in_[destination] + index in its in table
  std::vector<uint32_t> out_;   // by first_out_[source] + index in its out table: the link
  std::vector<Slot> slots_;
  std::vector<double> out_free_, in_free_, work_free_;  // by rank: when ports and hands are free
  Event event_{};                                       // that is happening
  std::deque<Event> at_once_;
  std::vector<Event> events_;  // a heap
  uint64_t created_ = 0;
  double now_ = 0;
  SimReport report_;
};

Status check(const NetworkModel& network, const SimCall& call) {
  const std::array<double, 6> values = {network.alpha_us[0],         network.alpha_us[1],
                                        network.beta_us_per_byte[0], network.beta_us_per_byte[1],
                                        network.gamma_us_per_byte,   network.copy_us_per_byte};
  for (const double v : values)
    if (!std::isfinite(v) || v < 0)
      return error(hktInvalidArgument, "the network model has the value %g; expected a finite number >= 0", v);
  if (call.elem_size == 0 || call.elem_size > 16 || (call.elem_size & (call.elem_size - 1)) != 0)
    return error(hktInvalidArgument, "element size %u; expected 1, 2, 4, 8 or 16", call.elem_size);
  if (call.bytes % call.elem_size != 0)
    return error(hktInvalidArgument, "%llu bytes are no multiple of the element size %u",
                 static_cast<unsigned long long>(call.bytes), call.elem_size);
  if (call.depth == 0) return error(hktInvalidArgument, "links of depth 0 carry nothing; expected at least 1");
  return {};
}

}  // namespace

Result<SimReport> simulate(const StepSource& source, const NetworkModel& network, const SimCall& call) {
  HKT_TRY(check(network, call));
  const PlanInfo& info = source.info();
  const bool blocks = layout(info.collective) == Layout::blocks;
  const uint64_t elems = call.bytes / call.elem_size / (blocks ? info.nranks : 1);
  if (blocks && call.bytes / call.elem_size % info.nranks != 0)
    return error(hktInvalidArgument, "%llu bytes are not %u equal blocks of elements of %u bytes",
                 static_cast<unsigned long long>(call.bytes), info.nranks, call.elem_size);
  const uint64_t round =
      call.slot_bytes == 0 ? std::max<uint64_t>(elems, 1) : round_elems(info, call.elem_size, call.slot_bytes);
  if (round == 0)
    return error(hktInvalidArgument,
                 "slots of %llu bytes are too small: a message of %s carries %u blocks of a cache line each",
                 static_cast<unsigned long long>(call.slot_bytes), info.name.c_str(), info.message_blocks);
  if (elems / round >= kNone)
    return error(hktInvalidArgument, "%llu bytes in slots of %llu are too many rounds: use larger slots",
                 static_cast<unsigned long long>(call.bytes), static_cast<unsigned long long>(call.slot_bytes));
  const Shape shape = blocks ? Shape(BlockLayout{info.collective, info.nranks, 0, call.elem_size, elems, round})
                             : Shape(elems, call.elem_size, info.chunks[static_cast<size_t>(Buf::out)], round);
  return Simulation(source, network, call, shape).run();
}

Result<SimReport> simulate(const Plan& plan, const NetworkModel& network, const SimCall& call) {
  HKT_TRY(validate(plan));
  return simulate(PlanSource(plan), network, call);
}

}  // namespace hocket
