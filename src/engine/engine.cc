#include "engine/engine.h"

#include <algorithm>
#include <cstring>

#include "engine/operation.h"

namespace hocket {

constinit thread_local uint32_t in_operation = 0;

namespace {

// A value with more than one target is made in tiles that stay in the first-level cache, so that copying it on is
// cheap.
constexpr uint64_t kTile = 8 * 1024;
// A shorter message is better copied to its slot than sent from where it is.
constexpr uint64_t kLend = 4 * 1024;
// What a step fetches at a time, of all its messages together, stays in the second-level cache until it is folded. Of
// one message at least so much, for each time is a system call.
constexpr uint64_t kFetch = 256 * 1024, kFetchLeast = 16 * 1024;

Shape shape_of(const BoundPlan& plan, const Call& call) {
  const PlanInfo& info = plan.info;
  const uint64_t round = plan.round_of(call.elem_size);
  if (layout(info.collective) == Layout::round_major)
    return {call.elems, call.elem_size, info.chunks[static_cast<uint32_t>(Buf::out)], round};
  return Shape(BlockLayout{info.collective, info.nranks, call.rank, call.elem_size, call.elems, round, call.counts,
                           call.displs});
}

}  // namespace

// The shape is made where it stays: to copy what has just been written is to wait for it.
inline Run::Run(Engine& engine, const BoundPlan& plan, const Call& call)
    : engine_(engine), plan_(plan), call_(call), shape_(shape_of(plan, call)), rounds_(shape_.rounds()) {
  if (call.registered && plan.zero_copy) [[unlikely]]
    zero_ = &*plan.zero_copy;
  else if (call.read_from != UINT64_MAX && plan.read) [[unlikely]]
    zero_ = &*plan.read;
}
inline Engine::Begun::Begun(Engine& engine, const BoundPlan& plan, const Call& call)
    : run(engine, plan, call), lent(engine.waiter_) {}

// Defined before run_lane takes them in: they are the hot path.
inline bool Run::dep_done(Dep d, uint32_t round) const {
  const Cursor& c = engine_.cursors_[d.lane];
  return c.round > round || (c.round == round && c.step > d.step);
}
inline bool Run::pop_ready(uint32_t link) const { return plan_.in[link]->pop_ready(call_.signature); }
inline bool Run::push_ready(uint32_t link, const Step&) const { return plan_.out[link]->push_ready(); }
inline void Run::execute(const Step& s, const Cursor& c) {
  run_step(s, c);
  ++executed_;
  if (engine_.trace_ != nullptr) [[unlikely]]
    engine_.trace_->push_back({c.lane, c.round, c.step});
}

bool Run::advance() {
  bool done = true;
  for (Cursor& c : engine_.cursors_)
    if (c.round < rounds_) done = run_lane(plan_, c, rounds_, *this) && done;
  done_ = done && (!drains_ || drained());
  return done_;
}

void Run::enter() {
  if (zero_ == nullptr) [[likely]]
    return;
  if (zero_->out_of_place_only && call_.in == call_.out) {
    zero_ = nullptr;
    return;
  }
  const auto direct = [&](const Peer& p) { return zero_->protocol[p.tag] == Protocol::direct; };
  for (size_t k = 0; k < plan_.out.size(); ++k)
    if (direct(plan_.plan.out[k])) plan_.out[k]->expect_grant(call_.signature);
  if (call_.out_region == nullptr) return;
  for (size_t k = 0; k < plan_.in.size(); ++k)
    if (direct(plan_.plan.in[k]))
      plan_.in[k]->grant(*call_.out_region, call_.out_region->offset(call_.out), call_.signature);
}

bool Run::all_direct(const Step& s) const {
  return std::all_of(engine_.placed_.begin(), engine_.placed_.begin() + s.nsend,
                     [](const Placed& p) { return p.to != nullptr; });
}

bool Run::drained() const {
  return std::all_of(plan_.out.begin(), plan_.out.end(), [](const Link* link) { return link->passed(); });
}

bool Run::place(const Step& s, Span src, Span dst) {
  if (zero_ == nullptr || s.nsend == 0 || bytes_ < Link::kMapFrom) return false;
  const bool keeps = s.has(kStore);
  const Buf b = keeps ? s.dst_buf() : s.src_buf();
  const bool lies = keeps || (s.operands() == 1 && s.has(kLoad) && !changes(s));
  const Region* const region = !lies           ? nullptr
                               : b == Buf::in  ? call_.in_region
                               : b == Buf::out ? call_.out_region
                                               : nullptr;
  const unsigned char* const value = lies && b != Buf::scratch ? at(b, keeps ? dst.offset : src.offset) : nullptr;
  bool any = false;
  for (uint32_t k = 0; k < uint32_t{s.nsend}; ++k) {
    const Link& link = *plan_.out[s.send + k];
    Placed& p = engine_.placed_[k] = {};
    switch (zero_->protocol[plan_.plan.out[s.send + k].tag]) {
      case Protocol::slot:
        break;
      case Protocol::mapped:
        if (region != nullptr && link.reaches(*region))
          p.place = MessagePlace(MessagePlace::Of::producer, region->name, region->offset(value));
        else if (value != nullptr && bytes_ >= call_.read_from && link.readable())
          p.place = MessagePlace::unmapped(value);
        drains_ = drains_ || (p.place && zero_->drain);
        break;
      case Protocol::direct:
        if (const MessagePlace granted = link.granted(); granted) {
          p.place = granted.plus(shape_.span(Buf::out, keeps ? s.dst : s.src, round_).offset);
          p.to = link.at(p.place);
        }
        break;
    }
    any = any || p.place;
  }
  return any;
}

bool Run::poll() {
  const uint64_t before = executed_;
  return advance() || executed_ != before;
}

Blocked Run::blocked() const {
  Blocked b;
  for (const Cursor& c : engine_.cursors_) {
    if (c.round >= rounds_) continue;
    const Step& s = plan_.step(c.lane, c.step);
    const Wait kind = wait_kind(s, c);
    if (kind == Wait::dep) continue;  // waits for a lane that is listed itself
    // All links of the step that are not ready, not only the first: people want to know who is missing.
    for (uint32_t k = 0; k < uint32_t{s.nrecv}; ++k) {
      const Link& link = *plan_.in[s.recv + k];
      uint32_t theirs = 0;
      if (link.pop_ready(call_.signature)) continue;
      b.peers.push_back(static_cast<int>(plan_.plan.in[s.recv + k].rank));
      if (link.pop_mismatch(call_.signature, &theirs)) b.mismatched.push_back(b.peers.back());
    }
    if (kind == Wait::push) b.peers.push_back(static_cast<int>(plan_.plan.out[wait_link(s, c)].rank));
  }
  for (size_t k = 0; drains_ && b.peers.empty() && k < plan_.out.size(); ++k)
    if (!plan_.out[k]->passed()) b.peers.push_back(static_cast<int>(plan_.plan.out[k].rank));
  for (std::vector<int>* v : {&b.peers, &b.mismatched}) {
    std::sort(v->begin(), v->end());
    v->erase(std::unique(v->begin(), v->end()), v->end());
  }
  return b;
}

inline const unsigned char* Run::standing(const Step& s, Span src) const {
  const bool copies = s.nsend != 0 && s.operands() == 1 && s.has(kLoad) && s.src_buf() == Buf::in;
  const bool stays = call_.in != call_.out && !changes(s);
  return copies && stays && src.bytes >= kLend ? at(Buf::in, src.offset) : nullptr;
}

inline unsigned char* Run::at(Buf b, uint64_t offset) const {
  switch (b) {
    case Buf::in:
      return const_cast<unsigned char*>(static_cast<const unsigned char*>(call_.in)) + offset;  // only ever read
    case Buf::out:
      return static_cast<unsigned char*>(call_.out) + offset;
    case Buf::scratch:
      return reinterpret_cast<unsigned char*>(engine_.scratch_.data()) + offset;
  }
  return nullptr;
}

uint64_t Run::message_bytes(const Step& s, uint32_t round) const {
  const bool by_dst = !s.has(kLoad);
  const Buf b = by_dst ? s.dst_buf() : s.src_buf();
  const uint32_t first = by_dst ? s.dst : s.src;
  const uint32_t chunks = plan_.info.chunks[static_cast<uint32_t>(b)];
  uint64_t bytes = 0;
  for (uint32_t j = 0; j < s.count; ++j)
    bytes += shape_.span(b, static_cast<uint32_t>((first + uint64_t{j} * s.stride) % chunks), round).bytes;
  return bytes;
}

void Run::run_step(const Step& s, const Cursor& c) {
  round_ = c.round;
  if (s.count == 1) [[likely]] {
    const Span src = s.has(kLoad) ? shape_.span(s.src_buf(), s.src, c.round) : Span{};
    const Span dst = s.has(kStore) ? shape_.span(s.dst_buf(), s.dst, c.round) : Span{};
    const uint64_t bytes = s.has(kLoad) ? src.bytes : dst.bytes;
    bytes_ = bytes;
    lent_ = standing(s, src);
    placed_ = place(s, src, dst);
    make(s, 0, 0, {src.offset, bytes}, {dst.offset, bytes});
  } else if (s.count > 1) {
    bytes_ = message_bytes(s, c.round);
    uint64_t offset = 0;
    for (uint32_t j = 0; j < s.count; ++j) {
      const auto block = [&](Buf b, uint32_t first) {
        const uint32_t chunks = plan_.info.chunks[static_cast<uint32_t>(b)];
        return shape_.span(b, static_cast<uint32_t>((first + uint64_t{j} * s.stride) % chunks), c.round);
      };
      const Span src = s.has(kLoad) ? block(s.src_buf(), s.src) : Span{};
      const Span dst = s.has(kStore) ? block(s.dst_buf(), s.dst) : Span{};
      const uint64_t bytes = s.has(kLoad) ? src.bytes : dst.bytes;
      make(s, j, offset, {src.offset, bytes}, {dst.offset, bytes});
      offset += bytes;
    }
  } else {
    bytes_ = 0;
  }
  for (uint32_t k = 0; k < uint32_t{s.nrecv}; ++k) plan_.in[s.recv + k]->pop(bytes_);
  for (uint32_t k = 0; k < uint32_t{s.nsend}; ++k) {
    Link& link = *plan_.out[s.send + k];
    if (placed_ && engine_.placed_[k].place) [[unlikely]] {
      link.push_at(engine_.placed_[k].place, bytes_, call_.signature);
      ++engine_.without_copy_;
    } else if (lends(link)) [[unlikely]] {
      link.lend(lent_, bytes_, call_.signature);
    } else {
      link.push(bytes_, call_.signature);
    }
  }
  lent_ = nullptr;
  placed_ = false;
}

uint32_t Run::add_locals(const Step& s, Part part, uint32_t operands) {
  const uint32_t chunks = plan_.info.chunks[static_cast<uint32_t>(s.src_buf())];
  for (uint32_t o = 1; o < uint32_t{s.nload}; ++o) {
    const uint64_t block = s.src + (uint64_t{o} * s.count + part.j) * s.stride;
    const Span span = shape_.span(s.src_buf(), static_cast<uint32_t>(block % chunks), round_);
    engine_.operands_[operands++] = at(s.src_buf(), span.offset + part.within);
  }
  return operands;
}

void Run::make(const Step& s, uint32_t j, uint64_t offset, Span src, Span dst) {
  const uint64_t bytes = src.bytes, most = part_bytes(s, bytes);
  for (uint64_t at = 0; at < bytes; at += most) {
    const uint64_t n = std::min(bytes - at, most);
    make_part(s, {j, at, offset + at}, {src.offset + at, n}, {dst.offset + at, n});
  }
}

uint64_t Run::part_bytes(const Step& s, uint64_t bytes) {
  if (bytes_ < Link::kMapFrom) [[likely]]
    return bytes;
  uint64_t fetched = 0;
  for (uint32_t k = 0; k < uint32_t{s.nrecv}; ++k) fetched += plan_.in[s.recv + k]->fetched(bytes_) ? 1 : 0;
  if (fetched == 0) return bytes;
  part_ = std::max(kFetchLeast, kFetch / fetched / kFetchLeast * kFetchLeast);
  const uint64_t lines = uint64_t{s.nrecv} * part_ / sizeof(Engine::Line);
  if (engine_.fetched_.size() < lines) engine_.fetched_.resize(lines);
  return part_;
}

const unsigned char* Run::message(const Step& s, uint32_t k, Part part, uint64_t bytes, unsigned char* direct) {
  const Link& link = *plan_.in[s.recv + k];
  const unsigned char* const from = link.pop_begin(bytes_) + part.offset;
  if (bytes_ < Link::kMapFrom) [[likely]]
    return from;
  has_read_ = has_read_ || link.stays(bytes_);
  if (!link.fetched(bytes_)) return from;
  auto* const room = reinterpret_cast<unsigned char*>(engine_.fetched_.data());
  unsigned char* const to = direct != nullptr ? direct : room + k * part_;
  link.fetch(to, from, bytes);
  return to;
}

void Run::make_part(const Step& s, Part part, Span src, Span dst) {
  const void** operand = engine_.operands_.data();
  uint32_t operands = 0;
  const unsigned char* local = s.has(kLoad) ? at(s.src_buf(), src.offset) : nullptr;
  // A message that is all there is of the value goes to where it is stored.
  unsigned char* const direct =
      s.nrecv == 1 && local == nullptr && s.has(kStore) ? at(s.dst_buf(), dst.offset) : nullptr;
  for (uint32_t k = 0; k < uint32_t{s.nrecv}; ++k) {
    if (local != nullptr && k == s.self) {
      operand[operands++] = local;
      if (s.nload > 1) [[unlikely]]
        operands = add_locals(s, part, operands);
    }
    operand[operands++] = message(s, k, part, src.bytes, direct);
  }
  if (local != nullptr && s.self >= s.nrecv) {
    operand[operands++] = local;
    if (s.nload > 1) [[unlikely]]
      operands = add_locals(s, part, operands);
  }

  Target* target = engine_.targets_.data();
  uint32_t targets = 0;
  // Written to outputs, here and on peers, which are as far away as their slots.
  const bool past = call_.out_stores == kernels::Stores::streaming || call_.slot_stores == kernels::Stores::streaming;
  const kernels::Stores results = past ? kernels::Stores::streaming : kernels::Stores::temporal;
  // What others fetch from the output, or is copied on from there, must stay in the cache; the last write need not.
  if (s.has(kStore)) {
    kernels::Stores stores = kernels::Stores::temporal;
    if (s.dst_buf() == Buf::out && s.nsend == 0) stores = call_.out_stores;
    if (s.dst_buf() == Buf::out && placed_ && all_direct(s)) stores = results;
    target[targets++] = {at(s.dst_buf(), dst.offset), stores};
  }
  for (uint32_t k = 0; k < uint32_t{s.nsend}; ++k) {
    if (placed_ && engine_.placed_[k].place) [[unlikely]] {
      if (unsigned char* const to = engine_.placed_[k].to; to != nullptr)
        target[targets++] = {to + part.within, results};
    } else if (const Link& link = *plan_.out[s.send + k]; !lends(link)) {
      target[targets++] = {link.push_begin(bytes_) + part.offset, call_.slot_stores};
    }
  }
  if (targets == 0) return;
  if (call_.scale == nullptr && call_.combine == nullptr) [[likely]]
    return move(operands, targets, src.bytes, s.has(kPost) ? call_.divisor : 1);
  const bool scales = call_.scale != nullptr && local != nullptr && s.has(kPre);
  compose(operands, targets, src.bytes, scales ? std::min<uint32_t>(s.self, s.nrecv) : operands);
}

void Run::move(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t divisor) {
  const void** operand = engine_.operands_.data();
  Target* target = engine_.targets_.data();
  const bool folds = operands > 1 || divisor > 1;
  if (targets != 1) return spread(operands, targets, bytes, divisor);
  const bool streams = target[0].stores == kernels::Stores::streaming;
  if (folds) {
    (streams ? call_.fold.streaming : call_.fold.temporal)(target[0].to, operand, operands, bytes / call_.elem_size,
                                                           divisor);
  } else if (target[0].to != operand[0]) {
    kernels::copy(target[0].to, operand[0], bytes, target[0].stores);
  }
}

void Run::spread(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t divisor) {
  const void** operand = engine_.operands_.data();
  Target* target = engine_.targets_.data();
  const bool folds = operands > 1 || divisor > 1;
  // A copy has its source in the cache for every target; a fold makes its first target the source of the others, unless
  // that is to go past the caches.
  const bool apart = folds && target[0].stores == kernels::Stores::streaming;
  alignas(64) unsigned char folded[kTile];
  bool streamed = false;
  for (uint64_t left = bytes; left != 0;) {
    const uint64_t n = std::min(left, kTile);
    const void* made = operand[0];
    if (folds) {
      unsigned char* const to = apart ? folded : target[0].to;
      call_.fold.temporal(to, operand, operands, n / call_.elem_size, divisor);
      made = to;
    }
    for (uint32_t k = 0; k < targets; ++k) {
      if (target[k].to == made) continue;
      if (target[k].stores == kernels::Stores::streaming) {
        kernels::stream(target[k].to, made, n);
        streamed = true;
      } else {
        std::memcpy(target[k].to, made, n);
      }
    }
    left -= n;
    if (left == 0) break;
    for (uint32_t k = 0; k < operands; ++k) operand[k] = static_cast<const unsigned char*>(operand[k]) + n;
    for (uint32_t k = 0; k < targets; ++k) target[k].to += n;
  }
  if (streamed) kernels::flush();
}

void Run::compose(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t scaled) {
  const void** operand = engine_.operands_.data();
  Target* target = engine_.targets_.data();
  alignas(64) unsigned char made[kTile];
  for (uint64_t left = bytes; left != 0;) {
    const uint64_t n = std::min(left, kTile);
    const void* const plain = scaled < operands ? operand[scaled] : nullptr;
    if (plain != nullptr) {
      call_.scale(made, plain, n / call_.elem_size, call_.scalar.data());
      operand[scaled] = made;
    }
    const void* value = operands > 1 ? made : operand[0];
    if (operands > 1 && call_.combine != nullptr) {
      combine(made, operands, n);
    } else if (operands > 1) {
      call_.fold.temporal(made, operand, operands, n / call_.elem_size, 1);
    }
    for (uint32_t k = 0; k < targets; ++k) {
      if (target[k].to != value) kernels::copy(target[k].to, value, n, target[k].stores);
      target[k].to += n;
    }
    if (plain != nullptr) operand[scaled] = plain;
    left -= n;
    if (left == 0) break;  // what follows the operands may be no one's memory
    for (uint32_t k = 0; k < operands; ++k) operand[k] = static_cast<const unsigned char*>(operand[k]) + n;
  }
}

void Run::combine(unsigned char* to, uint32_t operands, uint64_t n) const {
  const void* const* operand = engine_.operands_.data();
  const void* left = operand[0];
  const OperationScope scope;
  for (uint32_t k = 1; k < operands; ++k) {
    call_.combine(left, operand[k], to, n / call_.elem_size, call_.type, call_.context);
    left = to;
  }
}

void Engine::prepare(const BoundPlan& plan, const Shape& shape) {
  const size_t lanes = plan.plan.lanes.size();
  if (cursors_.size() != lanes) cursors_.resize(lanes);
  for (uint32_t lane = 0; lane < lanes; ++lane) cursors_[lane] = {lane, 0, 0, 0};
  if (operands_.size() < plan.operands) operands_.resize(plan.operands);
  if (targets_.size() <= plan.out.size()) targets_.resize(plan.out.size() + 1);
  if (placed_.size() < plan.out.size()) placed_.resize(plan.out.size());
  const uint32_t chunks = plan.info.chunks[static_cast<uint32_t>(Buf::scratch)];
  if (chunks == 0) return;
  const uint64_t scratch = chunks * shape.scratch_stride();
  if (scratch_.size() * sizeof(Line) < scratch) scratch_.resize((scratch + sizeof(Line) - 1) / sizeof(Line));
}

Status Engine::run(const BoundPlan& plan, const Call& call) {
  Run run(*this, plan, call);
  prepare(plan, run.shape());
  run.enter();
  Lent lent(waiter_);
  if (!run.advance()) do
      HKT_TRY(waiter_.wait(run));
    while (!run.done());
  if (run.has_read()) HKT_TRY(waiter_.confirm());
  // A call ends only when all it pushed is out of this process: the caller may not come back for hours.
  if (waiter_.pumped()) HKT_TRY(waiter_.flush());
  lent.returned();
  return {};
}

void Engine::begin(const BoundPlan& plan, const Call& call) {
  begun_.emplace(*this, plan, call);
  prepare(plan, begun_->run.shape());
  begun_->run.enter();
}

bool Engine::end() {
  if (!begun_.has_value()) return true;
  if (!begun_->run.done() || (waiter_.pumped() && !waiter_.flushed())) return false;
  begun_->lent.returned();
  begun_.reset();
  return true;
}

}  // namespace hocket
