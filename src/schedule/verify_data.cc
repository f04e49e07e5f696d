// The data pass: one round of the plan with fingerprints in place of data.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "schedule/happens_before.h"
#include "schedule/run_all.h"
#include "schedule/verify.h"

namespace hocket {
namespace {

// A bijection that scatters: equal results only for equal arguments. (The finaliser of MurmurHash3.)
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

// What a chunk stands for.
//   a, b     linear: the sum of the fingerprints of its contributions, twice. pre and post are affine, x -> factor * x
//   + term, so that
//            one comparison at the end tells whether pre came to every contribution alone and post to the whole, once
//            each.
//   order    the expression that was computed, + commutative and not associative, every rounding a node of its own.
//   lo, hi   the contributions are those of ranks lo .. hi - 1, in this order; lo == kNoOrder otherwise.
// An unequal value passes for equal with a probability of 2^-128 (a, b) or 2^-64 (order).
struct Value {
  uint64_t a = 0, b = 0, order = 0;
  uint32_t lo = 0, hi = 0;
};

constexpr uint32_t kNoOrder = ~0u;
constexpr uint64_t kPreFactor = 0x9e3779b97f4a7c15, kPreTerm = 0xd1b54a32d192ed03;
constexpr uint64_t kPostFactor = 0xbf58476d1ce4e5b9, kPostTerm = 0x94d049bb133111eb;
constexpr uint64_t kPreOrder = 0x2545f4914f6cdd1d, kPostOrder = 0x60bee2bee120fc15, kRoundOrder = 0xa3b195354a39b70d;

// Counts in place of fingerprints, to explain what a wrong chunk holds: a counts the contributions of ranks `rank` and
// rank + 1 to `chunk` (32 bits each); b those of all ranks to other chunks, then how often pre and post were applied
// (21 bits each).
struct Probe {
  uint32_t rank = 0;
  uint32_t chunk = 0;
};
constexpr uint32_t kProbeBits = 21;
constexpr uint64_t probe_field(uint64_t word, uint32_t i) {
  return word >> (i * kProbeBits) & ((1u << kProbeBits) - 1);
}

Value leaf(uint32_t rank, uint32_t chunk, const Probe* probe) {
  if (probe) {
    const bool here = chunk == probe->chunk;
    return {here && rank == probe->rank       ? 1u
            : here && rank == probe->rank + 1 ? uint64_t{1} << 32
                                              : 0,
            here ? 0u : 1u, 0, 0, 0};
  }
  const uint64_t key = mix64((uint64_t{rank} << 32 | chunk) + 0x632be59bd9b4e019);
  return {key, mix64(key + 1), mix64(rank + 0x58f38dedULL), rank, rank + 1};
}

void apply_pre(Value& v, const Probe* probe) {
  if (probe) {
    v.b += uint64_t{1} << kProbeBits;
    return;
  }
  v.a = v.a * kPreFactor + kPreTerm;
  v.b = v.b * kPreFactor + kPreTerm;
  v.order = mix64(v.order ^ kPreOrder);
}

void apply_post(Value& v, const Probe* probe) {
  if (probe) {
    v.b += uint64_t{1} << (2 * kProbeBits);
    return;
  }
  v.a = v.a * kPostFactor + kPostTerm;
  v.b = v.b * kPostFactor + kPostTerm;
  v.order = mix64(v.order ^ kPostOrder);
}

// False if the operands were in order, each by itself, and are not any more.
bool fold(Value& acc, const Value& v) {
  acc.a += v.a;
  acc.b += v.b;
  acc.order = mix64(acc.order + v.order);
  const bool was = acc.lo != kNoOrder, follows = acc.hi == v.lo;
  if (!follows) acc.lo = kNoOrder;
  acc.hi = v.hi;
  return follows || !was;
}

// A message in flight. It is kept once, however many links carry it, and used again when the last of them has delivered
// it.
struct Message {
  uint32_t values = 0;  // where its blocks start in the pool
  uint32_t links = 0;   // that have yet to deliver it
  uint32_t count = 0;
  uint32_t first = 0, stride = 0;  // size classes: that of block j is (first + j * stride) mod their number
  uint32_t step = 0;               // global: who pushed it
};

class DataMachine {
 public:
  // `probe` may be null and must outlive this.
  DataMachine(Network& network, Placement placement, const Probe* probe)
      : network_(network), plan_(network.plan()), wiring_(network.wiring()), placement_(placement), probe_(probe) {
    const PlanInfo& info = plan_.info;
    chunks_ = info.chunks;
    classes_ = size_classes(info);
    stored_.resize(size_t{info.nranks} * (chunks_[1] + chunks_[2]));
    values_.resize(stored_.size());
    queue_.resize(wiring_.messages);
    uint32_t widest = 1;
    for (const RankPlan& r : plan_.ranks)
      for (const Step& s : r.steps) widest = std::max(widest, s.count);
    work_.resize(widest);
    free_.resize(std::bit_width(widest) + 1);
    if (placement == Placement::in_place)
      for (uint32_t r = 0; r < info.nranks; ++r)
        for (uint32_t c = 0; c < chunks_[0] && has_buffer(info, r, Buf::in); ++c) {
          const Cell at = cell(info, placement, r, {Buf::in, c});
          if (at.buf == Buf::in) continue;
          values_[place(r, at)] = leaf(r, c, probe_);
          stored_[place(r, at)] = kInput;
        }
  }

  void enter(uint32_t rank, uint32_t) {
    rank_ = rank;
    in_ = wiring_.first_in[rank];
    out_ = wiring_.out.data() + wiring_.first_out[rank];
  }
  bool failed() const { return !status_.ok(); }
  bool pop_ready(uint32_t k) const {
    const Flow& f = network_.flow(in_ + k);
    return f.pushed != f.popped && !failed();
  }
  bool push_ready(uint32_t, const Step&) const { return !failed(); }
  void execute(const Step& s, const Cursor& c);

  Status status() { return std::move(status_); }
  // After the run.
  const Value& out(uint32_t rank, uint32_t chunk) const { return values_[place(rank, {Buf::out, chunk})]; }
  Result<DataReport> report(DataDemands demands) const;

 private:
  static constexpr uint32_t kNever = 0, kInput = ~0u;  // of stored_; else 1 + the global step that stored last

  // Of out and scratch: in is never written, and so not kept.
  size_t place(uint32_t rank, Cell c) const {
    return size_t{rank} * (chunks_[1] + chunks_[2]) + (c.buf == Buf::scratch ? chunks_[1] : 0) + c.chunk;
  }
  // Of the first block of a step's value, and of the way to the next one.
  uint32_t class_of(const Step& s) const { return size_class(plan_.info, rank_, value_buf(s), value_chunk(s)); }
  uint32_t class_stride(const Step& s) const { return s.stride < classes_ ? s.stride : s.stride % classes_; }
  std::string here(const Cursor& c) const { return step_name(plan_, rank_, c.lane, c.step); }

  bool load(const Step& s, const Cursor& c, bool first);
  bool pop(const Step& s, const Cursor& c, uint32_t k, bool first);
  void push(const Step& s);
  uint32_t new_message(uint32_t count);
  void join(bool first, uint32_t j, const Value& v) {
    if (first)
      work_[j] = v;
    else if (!fold(work_[j], v) && disorder_ == kNever)
      disorder_ = step_ + 1;
  }

  Network& network_;
  const Plan& plan_;
  const Wiring& wiring_;
  Placement placement_;
  const Probe* probe_;
  std::array<uint32_t, kBufs> chunks_{};
  uint32_t classes_ = 1;
  std::vector<Value> values_;     // by place: out and scratch of all ranks
  std::vector<uint32_t> stored_;  // by place
  std::vector<uint32_t> queue_;   // by global message: index into messages_
  std::vector<Message> messages_;
  std::vector<Value> pool_;                  // blocks of messages
  std::vector<std::vector<uint32_t>> free_;  // messages to be used again, by width of the count
  std::vector<Value> work_;                  // blocks of the step at hand
  uint32_t rank_ = 0, in_ = 0;
  const uint32_t* out_ = nullptr;
  uint32_t step_ = 0;           // global, the one at hand
  uint32_t disorder_ = kNever;  // 1 + the step that first folded out of the order of ranks
  uint64_t steps_ = 0;
  Status status_;
};

bool DataMachine::load(const Step& s, const Cursor& c, bool first) {
  const Buf b = s.src_buf();
  const uint32_t chunks = chunks_[static_cast<size_t>(b)];
  for (uint32_t i = 0; i < loaded_blocks(s); ++i) {
    const uint32_t chunk = block(s.src, s.stride, i, chunks);
    const Cell c_at = cell(plan_.info, placement_, rank_, {b, chunk});
    Value v;
    if (c_at.buf == Buf::in) {
      v = leaf(rank_, chunk, probe_);
    } else {
      const size_t at = place(rank_, c_at);
      if (stored_[at] == kNever) {
        status_ = error(hktInvalidArgument, "%s loads %s, which nothing has stored", here(c).c_str(),
                        chunk_name(b, chunk).c_str());
        return false;
      }
      v = values_[at];
    }
    if (s.has(kPre)) apply_pre(v, probe_);
    join(first && i < s.count, i % s.count, v);
  }
  return true;
}

bool DataMachine::pop(const Step& s, const Cursor& c, uint32_t k, bool first) {
  const uint32_t link = in_ + s.recv + k;
  const Flow& f = network_.flow(link);
  Message& m = messages_[queue_[f.first + f.popped]];
  network_.popped(link);
  // The blocks that this step stores or loads.
  const uint32_t want = s.count > 0 ? class_of(s) : 0, want_stride = s.count > 0 ? class_stride(s) : 0;
  if (m.count != s.count || (m.count > 0 && m.first != want) || (m.count > 1 && m.stride != want_stride)) {
    status_ = error(hktInvalidArgument,
                    "%s expects %u blocks with the sizes of chunk %u + j * %u on %s; %s pushed %u blocks with those of "
                    "chunk %u + j * %u",
                    here(c).c_str(), s.count, want, want_stride, link_name(wiring_.links[link]).c_str(),
                    step_name(plan_, wiring_, m.step).c_str(), m.count, m.first, m.stride);
    return false;
  }
  const Value* from = pool_.data() + m.values;
  for (uint32_t j = 0; j < m.count; ++j) join(first, j, from[j]);
  if (--m.links == 0) free_[std::bit_width(m.count)].push_back(static_cast<uint32_t>(&m - messages_.data()));
  return true;
}

uint32_t DataMachine::new_message(uint32_t count) {
  const uint32_t width = static_cast<uint32_t>(std::bit_width(count));
  std::vector<uint32_t>& reusable = free_[width];
  if (!reusable.empty()) {
    const uint32_t id = reusable.back();
    reusable.pop_back();
    return id;
  }
  Message m;
  m.values = static_cast<uint32_t>(pool_.size());
  if (count > 0) pool_.resize(pool_.size() + (size_t{1} << width) - 1);
  messages_.push_back(m);
  return static_cast<uint32_t>(messages_.size()) - 1;
}

void DataMachine::push(const Step& s) {
  const uint32_t id = new_message(s.count);
  Message& m = messages_[id];
  m.links = s.nsend;
  m.count = s.count;
  m.step = step_;
  m.first = s.count > 0 ? class_of(s) : 0;
  m.stride = s.count > 0 ? class_stride(s) : 0;
  std::copy_n(work_.begin(), s.count, pool_.begin() + m.values);
  for (uint32_t k = 0; k < s.nsend; ++k) {
    const uint32_t link = out_[s.send + k];
    const Flow& f = network_.flow(link);
    queue_[f.first + f.pushed] = id;
    network_.pushed(link);
  }
}

void DataMachine::execute(const Step& s, const Cursor& c) {
  if (failed()) return;
  ++steps_;
  step_ = wiring_.first_step[rank_] + plan_.ranks[rank_].lanes[c.lane].first + c.step;
  bool first = true;
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    if (s.has(kLoad) && k == s.self) {
      if (!load(s, c, first)) return;
      first = false;
    }
    if (!pop(s, c, k, first)) return;
    first = false;
  }
  if (s.has(kLoad) && s.self == s.nrecv && !load(s, c, first)) return;
  const bool folds = s.operands() > 1;
  for (uint32_t j = 0; j < s.count; ++j) {
    Value& v = work_[j];
    if (s.has(kPost))
      apply_post(v, probe_);
    else if (folds)
      v.order = mix64(v.order ^ kRoundOrder);
  }
  if (s.has(kStore)) {
    const uint32_t chunks = chunks_[static_cast<size_t>(s.dst_buf())];
    for (uint32_t j = 0; j < s.count; ++j) {
      const size_t at = place(rank_, {s.dst_buf(), block(s.dst, s.stride, j, chunks)});
      values_[at] = work_[j];
      stored_[at] = step_ + 1;
    }
  }
  if (s.has(kSend)) push(s);
}

// What a chunk of out holds in place of what it should, found by running the plan again with counts.
std::string explain(const Plan& plan, const Wiring& wiring, Placement placement, uint32_t rank, uint32_t chunk) {
  constexpr uint32_t kShown = 3;
  const bool sums = reduces(plan.info.collective);
  const Origin from = origin(plan.info, rank, chunk);
  std::string text;
  uint32_t shown = 0;
  for (uint32_t r = 0; r < plan.info.nranks && shown < kShown; r += 2) {
    const Probe probe{r, from.chunk};
    Network network(plan, wiring, 1, Room::unbounded);
    DataMachine machine(network, placement, &probe);
    if (!network.run(machine).ok()) break;  // it ran to its end before
    const Value v = machine.out(rank, chunk);
    if (r == 0) {
      if (probe_field(v.b, 0) != 0)
        text += format(", %llu contributions to other chunks", static_cast<unsigned long long>(probe_field(v.b, 0)));
      if (sums && probe_field(v.b, 1) != plan.info.nranks)
        text += format(", pre applied %llu times for %u ranks", static_cast<unsigned long long>(probe_field(v.b, 1)),
                       plan.info.nranks);
      if (sums && probe_field(v.b, 2) != 1)
        text += format(", post applied %llu times", static_cast<unsigned long long>(probe_field(v.b, 2)));
    }
    const uint64_t counts[2] = {v.a & 0xffffffff, v.a >> 32};
    for (uint32_t i = 0; i < 2 && r + i < plan.info.nranks && shown < kShown; ++i) {
      if (counts[i] == (sums || r + i == from.rank ? 1u : 0u)) continue;
      text += format(", rank %u's contribution %llu times", r + i, static_cast<unsigned long long>(counts[i]));
      ++shown;
    }
  }
  return text.empty() ? "pre or post applied to the wrong operands" : text.substr(2);
}

// By chunk of in: what the fold of that of all ranks must be.
std::vector<Value> folds_wanted(const PlanInfo& info) {
  std::vector<Value> want(reduces(info.collective) ? info.chunks[0] : 0);
  for (uint32_t c = 0; c < want.size(); ++c) {
    for (uint32_t r = 0; r < info.nranks; ++r) {
      Value v = leaf(r, c, nullptr);
      apply_pre(v, nullptr);
      want[c].a += v.a;
      want[c].b += v.b;
    }
    apply_post(want[c], nullptr);
  }
  return want;
}

// The order of the canonical fold.
uint64_t canonical_order(const PlanInfo& info) {
  Value all;
  for (uint32_t r = 0; r < info.nranks; ++r) {
    Value v = leaf(r, 0, nullptr);
    apply_pre(v, nullptr);
    if (r == 0)
      all = v;
    else
      fold(all, v);
  }
  apply_post(all, nullptr);
  return all.order;
}

Result<DataReport> DataMachine::report(DataDemands demands) const {
  const PlanInfo& info = plan_.info;
  DataReport report{true, true, true, true, 0, steps_};
  if (info.collective == Collective::barrier) return report;
  const bool sums = reduces(info.collective);
  const std::vector<Value> folds = folds_wanted(info);
  const uint64_t canonical = canonical_order(info);
  // Of the first chunk of out that there is.
  const uint64_t first_order = out(out_is_at_root(info.collective) ? info.root : 0, 0).order;
  const char* placed = placement_ == Placement::in_place ? "in place" : "out of place";
  for (uint32_t c = 0; c < chunks_[1]; ++c) {
    for (uint32_t r = 0; r < info.nranks; ++r) {
      if (!has_buffer(info, r, Buf::out)) continue;
      const Origin from = origin(info, r, c);
      const Value want = sums ? folds[from.chunk] : leaf(from.rank, from.chunk, nullptr);
      const uint32_t stored = stored_[place(r, {Buf::out, c})];
      const Value& v = out(r, c);
      auto here = [&] {
        return format(
            "rank %u (%s): %s as left by %s", r, placed, chunk_name(Buf::out, c).c_str(),
            stored == kInput ? "the caller, for no step stores it" : step_name(plan_, wiring_, stored - 1).c_str());
      };
      if (stored == kNever)
        return error(hktInvalidArgument, "rank %u (%s): no step stores %s", r, placed, chunk_name(Buf::out, c).c_str());
      if (v.a != want.a || v.b != want.b)
        return error(hktInvalidArgument, "%s is wrong: %s", here().c_str(),
                     explain(plan_, wiring_, placement_, r, c).c_str());
      report.rank_identical &= info.collective != Collective::all_reduce || v.order == out(0, c).order;
      report.chunk_identical &= !sums || v.order == first_order;
      report.order_is_rank &= !sums || (v.lo == 0 && v.hi == info.nranks);
      report.canonical &= !sums || (v.order == canonical && report.order_is_rank);
      report.expression = mix64(report.expression + kPreFactor) ^ v.order;
      if (demands.rank_identical && !report.rank_identical)
        return error(hktInvalidArgument, "%s is another fold than at rank 0: their bits may differ", here().c_str());
      if (demands.order_is_rank && !report.order_is_rank)
        return error(hktInvalidArgument, "%s is not folded in the order of ranks; the first to leave it is %s",
                     here().c_str(), step_name(plan_, wiring_, disorder_ - 1).c_str());
      if (demands.canonical && !report.canonical)
        return error(hktInvalidArgument,
                     "%s is not the canonical fold: all contributions at once, in the order of ranks, rounded once",
                     here().c_str());
    }
  }
  report.chunk_identical &= report.rank_identical;
  if (report.chunk_identical) report.expression = first_order;
  return report;
}

Result<DataReport> run(const Plan& plan, const Wiring& wiring, Placement placement, DataDemands demands) {
  Network network(plan, wiring, 1, Room::unbounded);
  DataMachine machine(network, placement, nullptr);
  HKT_TRY(network.run(machine));
  HKT_TRY(machine.status());
  return machine.report(demands);
}

}  // namespace

Result<DataReport> verify_data(const Plan& plan, Placement placement, DataDemands demands) {
  HKT_ASSIGN(const Wiring wiring, wire(plan));
  HKT_TRY(check_places(plan.info, 1));
  if (plan.info.collective == Collective::barrier) HKT_TRY(verify_barrier(plan, wiring));
  return run(plan, wiring, placement, demands);
}

Result<DataReport> verify_data(const Plan& plan, DataDemands demands) {
  HKT_ASSIGN(const Wiring wiring, wire(plan));
  HKT_TRY(check_places(plan.info, 1));
  if (plan.info.collective == Collective::barrier) HKT_TRY(verify_barrier(plan, wiring));
  HKT_ASSIGN(const DataReport out_of_place, run(plan, wiring, Placement::out_of_place, demands));
  HKT_ASSIGN(const DataReport in_place, run(plan, wiring, Placement::in_place, demands));
  DataReport both = out_of_place;
  both.rank_identical &= in_place.rank_identical;
  both.chunk_identical &= in_place.chunk_identical;
  both.canonical &= in_place.canonical;
  both.order_is_rank &= in_place.order_is_rank;
  both.steps += in_place.steps;
  if (both.expression != in_place.expression) both.expression = mix64(both.expression) + in_place.expression;
  return both;
}

}  // namespace hocket
