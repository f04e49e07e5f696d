#include "conformance/call_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/types.h"
#include "schedule/text.h"
#include "unit/kernels_reference.h"

namespace hocket::test {
namespace {

using kernels::Bytes;

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

// A small number as an element; complex ones have an imaginary part.
Bytes number(hktDataType_t type, int real, int imaginary = 0) {
  const auto bytes = [](auto v) {
    Bytes b(sizeof v);
    std::memcpy(b.data(), &v, sizeof v);
    return b;
  };
  const auto narrow = [&](const kernels::Format& f) { return kernels::encode(f, static_cast<float>(real)); };
  switch (type) {
    case hktFloat16:
      return bytes(static_cast<uint16_t>(narrow(kernels::kHalf)));
    case hktBfloat16:
      return bytes(static_cast<uint16_t>(narrow(kernels::kBrain)));
    case hktFloat8e4m3:
      return bytes(static_cast<uint8_t>(narrow(kernels::kE4m3)));
    case hktFloat8e5m2:
      return bytes(static_cast<uint8_t>(narrow(kernels::kE5m2)));
    case hktFloat32:
      return bytes(static_cast<float>(real));
    case hktFloat64:
      return bytes(static_cast<double>(real));
    case hktComplex64:
    case hktComplex128: {
      const hktDataType_t part = type == hktComplex64 ? hktFloat32 : hktFloat64;
      Bytes b = number(part, real);
      const Bytes second = number(part, imaginary);
      b.insert(b.end(), second.begin(), second.end());
      return b;
    }
    default:
      break;
  }
  const auto wide = static_cast<int64_t>(real);
  Bytes b(type_size(type));
  std::memcpy(b.data(), &wide, b.size());
  return b;
}

// The `value`-th of three elements: no fold of 8 of them needs a rounding or has a zero whose sign depends on the
// order.
Bytes encoded(hktDataType_t type, int value) {
  if (type_class(type) == TypeClass::complex) return number(type, value + 1, value == 1 ? 1 : 0);  // 1, 2 + i, 3
  return number(type, type == hktFloat8e5m2 ? std::min(value, 1) : value);
}

// What rank r's elements are multiplied by: exact, too, with 4 ranks.
Bytes scalar_of(hktDataType_t type, int rank) { return number(type, 1 + rank % 2, rank % 2); }

// Folds of different communicators may run at the same time: one in a call, one on the progress thread.
void count_fold(void* context) {
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(context)).fetch_add(1, std::memory_order_relaxed);
}

// User's operations on the bytes of an element, whatever its type. Commutative: each byte is added.
void add_bytes(const void* left, const void* right, void* result, size_t count, hktDataType_t type, void* context) {
  count_fold(context);
  const auto *a = static_cast<const uint8_t*>(left), *b = static_cast<const uint8_t*>(right);
  for (size_t i = 0; i < count * type_size(type); ++i)
    static_cast<uint8_t*>(result)[i] = static_cast<uint8_t>(a[i] + b[i]);
}

// Not commutative, but associative: pairs of bytes (a, b) stand for x -> a * x + b, which are put one into the other. A
// byte alone is a pair of half bytes.
void compose_maps(const void* left, const void* right, void* result, size_t count, hktDataType_t type, void* context) {
  count_fold(context);
  const auto *l = static_cast<const uint8_t*>(left), *r = static_cast<const uint8_t*>(right);
  auto* out = static_cast<uint8_t*>(result);
  const size_t bytes = count * type_size(type);
  if (type_size(type) == 1) {
    for (size_t i = 0; i < bytes; ++i) {
      const int a = l[i] & 15, b = l[i] >> 4, c = r[i] & 15, d = r[i] >> 4;
      out[i] = static_cast<uint8_t>((a * c & 15) | ((a * d + b) & 15) << 4);
    }
    return;
  }
  for (size_t i = 0; i < bytes; i += 2) {
    const int a = l[i], b = l[i + 1], c = r[i], d = r[i + 1];
    out[i] = static_cast<uint8_t>(a * c);
    out[i + 1] = static_cast<uint8_t>(a * d + b);
  }
}

// The elements that ranks contribute, and their folds. Where nothing is folded they are any bytes. Where something is,
// they are so small that the result is exact in every type, whatever the order.
class Elements {
 public:
  Elements(const Trial& t, int n)
      : t_(t), n_(n), size_(type_size(t.type)), folds_(static_cast<size_t>((n + 1) * (n + 1))) {
    for (int v = 0; v < static_cast<int>(kValues); ++v) codes_.push_back(encoded(t.type, v));
  }

  size_t size() const { return size_; }
  void make(int rank, uint64_t block, uint64_t i, uint8_t* to) const {
    if (reduces(t_.collective) && t_.made <= OpKind::pre_mul_sum) {
      std::memcpy(to, codes_[value(rank, block, i)].data(), size_);
    } else {
      const uint64_t bits[2] = {hash(rank, block, i), hash(rank, block, ~i)};
      std::memcpy(to, bits, size_);
    }
  }
  void fold(uint64_t block, uint64_t i, uint8_t* to) {
    if (t_.made != OpKind::built_in) return fold_made(block, i, to);
    std::array<size_t, kValues> times{};  // how often there is each value
    for (int r = 0; r < n_; ++r) ++times[value(r, block, i)];
    Bytes& known = folds_[times[1] * (static_cast<size_t>(n_) + 1) + times[2]];
    if (known.empty()) {
      std::vector<Bytes> src;
      for (size_t v = 0; v < kValues; ++v) src.insert(src.end(), times[v], codes_[v]);
      known = kernels::reference({t_.type, t_.op, t_.op == hktAvg ? static_cast<uint32_t>(n_) : 1}, src);
    }
    std::memcpy(to, known.data(), size_);
  }

 private:
  static constexpr size_t kValues = 3;
  // By an operation that was made, in the order of ranks.
  void fold_made(uint64_t block, uint64_t i, uint8_t* to) const {
    std::vector<Bytes> src;
    for (int r = 0; r < n_; ++r) {
      src.emplace_back(size_);
      make(r, block, i, src.back().data());
      if (t_.made == OpKind::pre_mul_sum)
        src.back() = kernels::reference_scaled(t_.type, src.back(), scalar_of(t_.type, r).data());
    }
    if (t_.made == OpKind::pre_mul_sum) {
      src[0] = kernels::reference({t_.type, hktSum, 1}, src);
    } else {
      uint64_t calls = 0;
      for (size_t r = 1; r < src.size(); ++r)
        (t_.made == OpKind::commutative ? add_bytes : compose_maps)(src[0].data(), src[r].data(), src[0].data(), 1,
                                                                    t_.type, &calls);
    }
    std::memcpy(to, src[0].data(), size_);
  }
  uint64_t hash(int rank, uint64_t block, uint64_t i) const {
    return scramble(scramble(scramble(t_.salt + 1) + static_cast<uint64_t>(rank) * 1000003 + block) + i);
  }
  size_t value(int rank, uint64_t block, uint64_t i) const { return hash(rank, block, i) % kValues; }

  const Trial& t_;
  const int n_;
  const size_t size_;
  std::vector<Bytes> codes_;  // by value
  std::vector<Bytes> folds_;  // by how many ranks have a 1 and a 2
};

// How the blocks lie in the buffer that has all of them; a vector is one block.
struct Table {
  std::vector<size_t> counts, displs;
  bool packed = true;
  uint64_t whole = 0;  // elements
};

Table make_table(const Trial& t, int n) {
  Table table;
  const uint64_t blocks = layout(t.collective) == Layout::blocks ? static_cast<uint64_t>(n) : 1;
  for (uint64_t b = 0; b < blocks; ++b) {
    table.counts.push_back(t.table ? t.count * ((b * 7 + t.salt) % 4) / 2 : t.count);
    table.displs.push_back(table.whole);
    table.whole += table.counts.back();
  }
  if (!t.table || t.salt % 2 == 1) return table;
  table.packed = false;
  table.whole = 1;
  for (uint64_t b = blocks; b-- > 0;) {
    table.displs[b] = table.whole;
    table.whole += table.counts[b] + b % 2;
  }
  return table;
}

Status call(Communicator& comm, const Trial& t, const BlockData& blocks, const CallOptions& o) {
  const Data data{blocks.in, blocks.out, t.count, t.type};
  switch (t.collective) {
    case Collective::all_reduce:
      return comm.all_reduce(data.in, data.out, t.count, t.type, t.op, o);
    case Collective::broadcast:
      return comm.broadcast(data.in, data.out, t.count, t.type, t.root, o);
    case Collective::barrier:
      return comm.barrier(o);
    case Collective::reduce:
      return comm.reduce(data, t.op, t.root, o);
    case Collective::all_gather:
      return t.table ? comm.all_gather_v(blocks, o) : comm.all_gather(data, o);
    case Collective::reduce_scatter:
      return t.table ? comm.reduce_scatter_v(blocks, t.op, o) : comm.reduce_scatter(data, t.op, o);
    case Collective::all_to_all:
      return comm.all_to_all(data, o);
    case Collective::gather:
      return comm.gather(data, t.root, o);
    case Collective::scatter:
      return comm.scatter(data, t.root, o);
  }
  return error(hktInternalError, "no such collective");
}

}  // namespace

Operation make_op(OpKind kind, hktDataType_t type, int rank, uint64_t* calls) {
  Operation o;
  o.kind = kind;
  if (kind == OpKind::pre_mul_sum) {
    o.type = type;
    const Bytes scalar = scalar_of(type, rank);
    std::copy(scalar.begin(), scalar.end(), o.scalar.begin());
  } else {
    o.fn = kind == OpKind::commutative ? add_bytes : compose_maps;
    o.context = calls;
  }
  return o;
}

std::string to_string(const Trial& t) {
  return format("%s%s count %llu %s %s root %d salt %u%s", collective_name(t.collective), t.table ? "_v" : "",
                static_cast<unsigned long long>(t.count), type_name(t.type),
                operation_name(static_cast<uint32_t>(t.op)).c_str(), t.root, t.salt, t.in_place ? " in place" : "");
}

uint64_t room(const Trial& t, int nranks) { return (2 * t.guards + make_table(t, nranks).whole) * type_size(t.type); }

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (uint32_t c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective != Collective::barrier) kinds.push_back({collective, false});
    if (collective == Collective::all_gather || collective == Collective::reduce_scatter)
      kinds.push_back({collective, true});
  }
  return kinds;
}

struct Attempt::State {
  State(Communicator& c, const Trial& trial) : comm(c), t(trial), table(make_table(t, c.size())) {}

  Communicator& comm;
  const Trial t;
  Table table;
  uint64_t guard = 0, size = 0;
  Bytes in, out, in_before, want;
  const void* from = nullptr;
  void* to = nullptr;
};

Attempt::Attempt(Attempt&&) noexcept = default;
Attempt& Attempt::operator=(Attempt&&) noexcept = default;
Attempt::~Attempt() = default;

Attempt::Attempt(Communicator& comm, const Trial& trial) : state_(std::make_unique<State>(comm, trial)) {
  State& s = *state_;
  const Trial& t = s.t;
  const Table& table = s.table;
  const Collective c = t.collective;
  const auto me = static_cast<uint64_t>(comm.rank());
  Elements elements(t, comm.size());
  const uint64_t size = s.size = elements.size(), blocks = table.counts.size();
  const bool has_in = !in_is_at_root(c) || comm.rank() == t.root, in_own = in_is_own_block(c);
  const bool has_out = !out_is_at_root(c) || comm.rank() == t.root, out_own = out_is_own_block(c);
  const bool shared = t.in_place && has_in && has_out;

  // Calls visit(block, element, byte where it is in the buffer) for one of the two buffers.
  const auto each = [&](bool own, uint64_t start, const auto& visit) {
    for (uint64_t b = own ? me : 0; b < (own ? me + 1 : blocks); ++b)
      for (uint64_t i = 0; i < table.counts[b]; ++i) visit(b, i, start + ((own ? 0 : table.displs[b]) + i) * size);
  };
  // A buffer that is a block of the other one, in place, lies there.
  const uint64_t guard = s.guard = t.guards * size;
  const uint64_t in_at = guard + (shared && in_own ? table.displs[me] * size : 0);
  const uint64_t out_at = guard + (shared && out_own ? table.displs[me] * size : 0);
  const auto memory = [&](bool own) {
    return Bytes(2 * guard + (own && !shared ? table.counts[me] : table.whole) * size, 0xa5);
  };
  s.in = memory(in_own);
  s.out = memory(out_own);
  if (has_in)
    each(in_own, in_at,
         [&](uint64_t b, uint64_t i, uint64_t at) { elements.make(comm.rank(), in_own ? 0 : b, i, s.in.data() + at); });
  if (shared) s.out = s.in;
  s.want = s.out;
  s.in_before = s.in;
  if (has_out)
    each(out_own, out_at, [&](uint64_t b, uint64_t i, uint64_t at) {
      if (reduces(c)) return elements.fold(b, i, s.want.data() + at);
      const bool from_root = in_is_at_root(c);
      const bool only_block = in_own || c == Collective::broadcast;
      elements.make(from_root ? t.root : static_cast<int>(b), only_block ? 0 : me, i, s.want.data() + at);
    });

  void* const not_mine = t.salt % 2 == 0 ? nullptr : reinterpret_cast<void*>(8);  // must not be touched
  const auto placed = [](Bytes& bytes, unsigned char* elsewhere) {
    if (elsewhere == nullptr) return bytes.data();
    std::copy(bytes.begin(), bytes.end(), elsewhere);
    return elsewhere;
  };
  unsigned char* const in = placed(s.in, t.in_memory);
  unsigned char* const out = placed(s.out, t.out_memory);
  s.from = has_in ? (shared ? out : in) + in_at : not_mine;
  s.to = has_out ? out + out_at : not_mine;
}

Status Attempt::issue(const CallOptions& options) {
  State& s = *state_;
  std::vector<size_t> counts = s.table.counts, displs = s.table.displs;
  const BlockData blocks{s.from, s.to, counts.data(), s.table.packed ? nullptr : displs.data(), s.t.type};
  Status status = call(s.comm, s.t, blocks, options);
  std::fill(counts.begin(), counts.end(), SIZE_MAX / 2);
  std::fill(displs.begin(), displs.end(), SIZE_MAX / 4);
  return status;
}

const void* Attempt::in() const { return state_->from; }
void* Attempt::out() const { return state_->to; }

void Attempt::judge() const {
  State& s = *state_;
  if (s.t.in_memory != nullptr) std::copy_n(s.t.in_memory, s.in.size(), s.in.begin());
  ASSERT_EQ(s.in, s.in_before) << to_string(s.t) << ": rank " << s.comm.rank() << ": the input was changed";
  judge_output();
}

void Attempt::judge_output() const {
  State& s = *state_;
  if (s.t.out_memory != nullptr) std::copy_n(s.t.out_memory, s.out.size(), s.out.begin());
  if (s.out == s.want) return;
  const auto differ = std::mismatch(s.out.begin(), s.out.end(), s.want.begin());
  const auto at = static_cast<uint64_t>(differ.first - s.out.begin());
  FAIL() << to_string(s.t) << ": rank " << s.comm.rank() << " of " << s.comm.size() << ": byte " << at << " of "
         << s.out.size() << " ("
         << (at < s.guard || at >= s.out.size() - s.guard ? "a guard"
                                                          : "element " + std::to_string((at - s.guard) / s.size))
         << ") is " << int{*differ.first} << " and should be " << int{*differ.second};
}

void check_call(Communicator& comm, const Trial& trial) {
  Attempt attempt(comm, trial);
  const Status status = attempt.issue();
  ASSERT_TRUE(status.ok()) << to_string(trial) << ": " << status.error().text;
  attempt.judge();
}

}  // namespace hocket::test
