#include "comm/reproducible.h"

#include <algorithm>

#include "base/types.h"
#include "comm/communicator.h"
#include "schedule/collective.h"

namespace hocket {
namespace {

// Integers of a piece: with the codes and what they are made of, they stay in a second-level cache, and a run of so
// many bytes takes many times as long as one of a few.
constexpr uint64_t kPiece = 512 * 1024 / sizeof(int64_t);
// From so many floats on, sums are shared: below, another run costs more than it saves.
constexpr uint64_t kShared = 4096;
constexpr uint64_t kLine = 64;  // floats: shares begin on cache lines

const char* why_not(const CallRecord& r) {
  const auto type = static_cast<hktDataType_t>(r.type);
  switch (op_kind(r.op)) {
    case OpKind::built_in:
      return unreproducible(type, static_cast<hktRedOp_t>(r.op));
    case OpKind::pre_mul_sum:
      return unreproducible(type, hktSum);
    case OpKind::commutative:
    case OpKind::in_rank_order:
      break;
  }
  return "what a program's own operation makes of another order of its operands is not known";
}

// An order of one run.
Order order(Collective collective, hktDataType_t type, hktRedOp_t op, uint64_t count) {
  Order o;
  o.record.collective = static_cast<uint32_t>(collective);
  o.record.type = static_cast<uint32_t>(type);
  o.record.op = static_cast<uint32_t>(op);
  o.record.count = count;
  o.call.elems = count;
  o.call.elem_size = static_cast<uint32_t>(type_size(type));
  o.call.fold = kernels::fold_kernel(type, op);
  return o;
}

}  // namespace

bool sums_floats(const CallRecord& r) {
  const bool sum = r.op == hktSum || r.op == hktAvg || op_kind(r.op) == OpKind::pre_mul_sum;
  const TypeClass kind = type_class(static_cast<hktDataType_t>(r.type));
  return sum && (kind == TypeClass::floating || kind == TypeClass::complex);
}

Status check_reproducible(const CallRecord& r) {
  const char* const why = why_not(r);
  if (why == nullptr) return {};
  return error(hktInvalidArgument, "determinism R4 has no %s of %s: %s", operation_name(r.op).c_str(),
               type_name(static_cast<hktDataType_t>(r.type)), why);
}

void ReproducibleSums::begin(const Order& call, uint32_t rank, uint32_t n) {
  kind_ = kernels::reproducible_sum(static_cast<hktDataType_t>(call.record.type));
  record_ = call.record;
  call_ = call.call;
  rank_ = rank;
  n_ = n;
  vector_.clear();
  floats_ = 0;
  next_part_ = 0;
  next_first_ = 0;
  counts_.clear();
  displs_.clear();
  const uint64_t block = call_.elems * kind_.parts;
  for (uint32_t r = 0; r < n && layout(static_cast<Collective>(record_.collective)) == Layout::blocks; ++r) {
    counts_.push_back(call_.counts != nullptr ? call_.counts[r] * kind_.parts : block);
    displs_.push_back(call_.counts != nullptr ? call_.displs[r] * kind_.parts : r * block);
    floats_ = std::max(floats_, counts_.back());
  }
  // Every rank has a share in each piece, so that all of them are busy.
  step_ = kPiece / std::max<uint64_t>(kind_.limbs * (blocks() ? n : 1), 1);
  step_ = std::max<uint64_t>(step_ - step_ % kind_.parts, kind_.parts);
  stage_ = Stage::codes;
  at_ = 0;
  sums_ = nullptr;
  codes_ = scaled_ = results_ = nullptr;
}

void ReproducibleSums::append(const void* in, void* out, uint64_t elems) {
  if (elems == 0) return;
  const uint64_t floats = elems * kind_.parts;
  vector_.push_back({static_cast<const unsigned char*>(in), static_cast<unsigned char*>(out), 0, floats});
  floats_ += floats;
}

Status ReproducibleSums::ready(Communicator& comm) {
  lay_out();
  capacity_ = piece_;
  for (Order run : {codes_run(piece_), sums_run(blocks())}) HKT_TRY(comm.choose(run.record, run.call));
  if (!shared()) return {};
  for (Order run : {sums_run(true), results_run()}) HKT_TRY(comm.choose(run.record, run.call));
  return {};
}

// Of `whole`, as much of what is left from `first` on as the piece takes.
void ReproducibleSums::add(const Part& whole, uint64_t first) {
  Part p = whole;
  p.at = piece_;
  p.floats = std::min(whole.floats > first ? whole.floats - first : 0, step_ - (blocks() ? 0 : piece_));
  if (p.floats != 0) {
    p.in += first * kind_.float_size;
    if (p.out != nullptr) p.out += first * kind_.float_size;
  }
  parts_.push_back(p);
  piece_ += p.floats;
}

// The piece that begins at at_.
void ReproducibleSums::lay_out() {
  parts_.clear();
  limbs_.clear();
  limb_displs_.clear();
  piece_ = 0;
  for (uint32_t r = 0; r < counts_.size(); ++r) {
    const auto* const in = static_cast<const unsigned char*>(call_.in);
    auto* const out = r == rank_ ? static_cast<unsigned char*>(call_.out) : nullptr;
    add({counts_[r] != 0 ? in + displs_[r] * kind_.float_size : in, out, 0, counts_[r]}, at_);
    limbs_.push_back(parts_.back().floats * kind_.limbs);
    limb_displs_.push_back(parts_.back().at * kind_.limbs);
  }
  while (next_part_ < vector_.size() && piece_ < step_) {
    add(vector_[next_part_], next_first_);
    next_first_ += parts_.back().floats;
    if (next_first_ < vector_[next_part_].floats) break;
    ++next_part_;
    next_first_ = 0;
  }
  if (shared()) share();
}

bool ReproducibleSums::shared() const {
  return static_cast<Collective>(record_.collective) == Collective::all_reduce && n_ > 1 && piece_ >= kShared;
}

void ReproducibleSums::share() {
  shares_.clear();
  share_displs_.clear();
  const auto start = [&](uint32_t r) { return r < n_ ? piece_ * r / n_ / kLine * kLine : piece_; };
  for (uint32_t r = 0; r < n_; ++r) {
    share_displs_.push_back(start(r));
    shares_.push_back(start(r + 1) - start(r));
    limbs_.push_back(shares_.back() * kind_.limbs);
    limb_displs_.push_back(share_displs_.back() * kind_.limbs);
  }
}

Order ReproducibleSums::codes_run(uint64_t floats) const {
  Order run = order(Collective::all_reduce, kind_.code_type, hktMax, floats);
  run.call.in = run.call.out = codes_;
  return run;
}

Order ReproducibleSums::sums_run(bool by_table) const {
  const auto collective = by_table ? Collective::reduce_scatter : static_cast<Collective>(record_.collective);
  Order run = order(collective, hktInt64, hktSum, piece_ * kind_.limbs);
  run.record.root = record_.root;
  run.call.in = run.call.out = sums_;
  if (collective == Collective::reduce && record_.root != rank_) run.call.out = nullptr;
  if (!by_table) return run;
  run.record.table = 1;  // there is one; what it is, the table of the whole call has told
  run.call.elems = *std::max_element(limbs_.begin(), limbs_.end());
  run.call.counts = limbs_.data();
  run.call.displs = limb_displs_.data();
  run.call.rank = rank_;
  if (sums_ != nullptr) run.call.out = sums_ + limb_displs_[rank_];
  return run;
}

Order ReproducibleSums::results_run() const {
  const hktDataType_t type = kind_.float_size == 2 ? hktUint16 : kind_.float_size == 4 ? hktUint32 : hktUint64;
  Order run = order(Collective::all_gather, type, hktSum, piece_);
  run.call.fold = {};
  run.record.table = 1;
  run.call.elems = *std::max_element(shares_.begin(), shares_.end());
  run.call.counts = shares_.data();
  run.call.displs = share_displs_.data();
  run.call.rank = rank_;
  run.call.out = results_;
  if (results_ != nullptr) run.call.in = results_ + share_displs_[rank_] * kind_.float_size;
  return run;
}

bool ReproducibleSums::next(Order& run, Staging& staging) {
  switch (stage_) {
    case Stage::codes:
      break;
    case Stage::sums:
      quantise();
      run = sums_run(blocks() || shared());
      stage_ = Stage::results;
      return true;
    case Stage::results:
      if (shared()) {
        round_share();
        run = results_run();
        stage_ = Stage::copies;
        return true;
      }
      round();
      break;
    case Stage::copies:
      copy_results();
      break;
  }
  if (stage_ != Stage::codes) {  // a piece is done
    at_ += step_;
    if (at_ >= floats_) return false;
    lay_out();
  }
  classify(staging);
  run = codes_run(piece_);
  stage_ = Stage::sums;
  return true;
}

void ReproducibleSums::classify(Staging& staging) {
  const uint64_t sums = capacity_ * kind_.limbs * sizeof(int64_t);
  const uint64_t scaled = call_.scale != nullptr ? capacity_ * kind_.float_size : 0;
  const uint64_t results = vector_.size() > 1 ? capacity_ * kind_.float_size : 0;
  unsigned char* const memory = staging.take(sums + code_bytes(capacity_) + scaled + results);
  sums_ = reinterpret_cast<int64_t*>(memory);
  codes_ = memory + sums;
  scaled_ = codes(capacity_);
  results_ = parts_.size() == 1 ? parts_.front().out : scaled_ + scaled;
  for (const Part& p : parts_) {
    if (call_.scale != nullptr && p.floats != 0)
      call_.scale(scaled_ + p.at * kind_.float_size, p.in, p.floats / kind_.parts, call_.scalar.data());
    kind_.classify(codes(p.at), operands(p), p.floats);
  }
}

void ReproducibleSums::quantise() {
  for (const Part& p : parts_) kind_.quantise(sums_ + p.at * kind_.limbs, operands(p), codes(p.at), p.floats);
}

void ReproducibleSums::round() {
  for (const Part& p : parts_)
    if (p.out != nullptr && p.floats != 0)
      kind_.round(p.out, sums_ + p.at * kind_.limbs, codes(p.at), p.floats, call_.divisor);
}

void ReproducibleSums::round_share() {
  const uint64_t first = share_displs_[rank_];
  kind_.round(results_ + first * kind_.float_size, sums_ + first * kind_.limbs, codes(first), shares_[rank_],
              call_.divisor);
}

void ReproducibleSums::copy_results() {
  for (const Part& p : parts_)
    if (p.out != results_ + p.at * kind_.float_size)
      kernels::copy(p.out, results_ + p.at * kind_.float_size, p.floats * kind_.float_size, kernels::Stores::temporal);
}

}  // namespace hocket
