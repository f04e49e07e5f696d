// Ranks that call different collectives, whatever the form of the call: every rank gets an error that names both calls
// and the odd rank out, from that call or, if it had already returned, from its next one, within seconds; never a hang,
// never a wrong result. HOCKET_TEST_FULL=1 makes every call in every form, otherwise they take turns. With
// HOCKET_TEST_MEMORY calls are so large that messages lie in the memory that ranks have registered.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "comm/fused.h"
#include "inprocess/calls.h"
#include "inprocess/memory.h"

namespace hocket::test {
namespace {

// What the counts below are multiplied by.
uint64_t scale() { return registers() == Registers::none ? 1 : 64; }
// Of each buffer.
size_t elements() { return 4096 * scale(); }

// One call: of `count` elements with root 0, or with `count` for each rank in the tables of those that have some, but
// `first` for rank 0.
struct Asked {
  enum Kind : uint8_t {
    all_reduce,
    broadcast,
    barrier,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    all_gather_v,
    reduce_scatter_v,
    all_reduce_list,
    all_to_all_v,
    gather_v,
    scatter_v
  };
  Kind kind;
  uint64_t count = 100;
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;
  int root = 0;
  uint64_t first = 100;
  uint64_t gap = 0;  // between blocks

  Asked with_count(uint64_t n) const { return changed(&Asked::count, n); }
  Asked with_type(hktDataType_t t) const { return changed(&Asked::type, t); }
  Asked with_op(hktRedOp_t o) const { return changed(&Asked::op, o); }
  Asked with_root(int r) const { return changed(&Asked::root, r); }
  Asked with_first(uint64_t n) const { return changed(&Asked::first, n); }
  Asked with_gap(uint64_t n) const { return changed(&Asked::gap, n); }
  // As it is made.
  Asked scaled() const { return with_count(count * scale()).with_first(first * scale()); }

 private:
  template <class T>
  Asked changed(T Asked::*member, T value) const {
    Asked a = *this;
    a.*member = value;
    return a;
  }
};

constexpr const char* kNames[] = {"all_reduce",       "broadcast",       "barrier",      "reduce",   "all_gather",
                                  "reduce_scatter",   "all_to_all",      "gather",       "scatter",  "all_gather_v",
                                  "reduce_scatter_v", "all_reduce_list", "all_to_all_v", "gather_v", "scatter_v"};
bool folds(Asked::Kind k) {
  return k == Asked::all_reduce || k == Asked::reduce || k == Asked::reduce_scatter || k == Asked::reduce_scatter_v ||
         k == Asked::all_reduce_list;
}
bool rooted(Asked::Kind k) {
  return k == Asked::broadcast || k == Asked::reduce || k == Asked::gather || k == Asked::scatter ||
         k == Asked::gather_v || k == Asked::scatter_v;
}
bool has_table(Asked::Kind k) { return k == Asked::all_gather_v || k == Asked::reduce_scatter_v; }
bool of_messages(Asked::Kind k) { return k >= Asked::all_to_all_v; }

// How errors name the call; of a table they have the sum of `ranks` blocks and a digest.
std::vector<std::string> texts(const Asked& asked, int ranks) {
  const Asked a = asked.scaled();
  const auto type = [&] {
    return std::string(a.type == hktFloat32 ? "float" : a.type == hktInt32 ? "int32" : "uint32");
  };
  const std::string name = kNames[a.kind];
  const std::string root = ", root " + std::to_string(a.root);
  const std::string op = a.op == hktSum ? ", sum" : a.op == hktMax ? ", max" : ", min";
  if (a.kind == Asked::barrier) return {"barrier()"};
  if (of_messages(a.kind)) return {name + "(" + type() + (rooted(a.kind) ? root : "") + ")"};
  if (a.kind == Asked::all_reduce_list)
    return {name + "(2 buffers, count " + std::to_string(a.first + a.count) + ", " + type() + ", table ", op + ")"};
  if (has_table(a.kind)) {
    const uint64_t all = a.first + a.count * static_cast<uint64_t>(ranks - 1);
    std::vector<std::string> list{name + "(count " + std::to_string(all) + " in all, " + type() + ", table "};
    if (folds(a.kind)) list.push_back(op + ")");
    return list;
  }
  return {name + "(count " + std::to_string(a.count) + ", " + type() + (folds(a.kind) ? op : "") +
          (rooted(a.kind) ? root : "") + ")"};
}

constexpr size_t kCalls = 3;  // that may be outstanding

// The buffers of all calls, which live as long as any of them is outstanding.
struct Memory {
  explicit Memory(Communicator& comm) {
    const bool mine = registers(registers(), comm.rank());
    if (registers() != Registers::none) arena.emplace(comm, mine, mine, kCalls * elements() * sizeof(float));
    if (!arena) own.resize(2 * kCalls * elements());
    in = arena ? reinterpret_cast<float*>(arena->in) : own.data();
    out = arena ? reinterpret_cast<float*>(arena->out) : own.data() + kCalls * elements();
    for (float* const all : {in, out}) std::fill_n(all, kCalls * elements(), 1.0f);
  }
  std::optional<Arena> arena;
  std::vector<float> own;
  float *in = nullptr, *out = nullptr;
};

// The buffers of a call.
struct Buffers {
  Buffers(const Memory& m, size_t which) : in(m.in + which * elements()), out(m.out + which * elements()) {}
  float *in, *out;
};

Status call(Communicator& c, const Asked& asked, const Buffers& b, const CallOptions& o) {
  const Asked a = asked.scaled();
  const Data data{b.in, b.out, a.count, a.type};
  std::vector<size_t> counts(static_cast<size_t>(c.size()), a.count), displs;
  counts[0] = a.first;
  for (size_t r = 0; r < counts.size(); ++r) displs.push_back(r == 0 ? 0 : displs[r - 1] + counts[r - 1] + a.gap);
  const BlockData blocks{b.in, b.out, counts.data(), displs.data(), a.type};
  const BlockTable table{counts.data(), displs.data()};
  switch (a.kind) {
    case Asked::all_reduce:
      return c.all_reduce(data.in, data.out, data.count, data.type, a.op, o);
    case Asked::broadcast:
      return c.broadcast(data.out, data.out, data.count, data.type, a.root, o);
    case Asked::barrier:
      return c.barrier(o);
    case Asked::reduce:
      return c.reduce(data, a.op, a.root, o);
    case Asked::all_gather:
      return c.all_gather(data, o);
    case Asked::reduce_scatter:
      return c.reduce_scatter(data, a.op, o);
    case Asked::all_to_all:
      return c.all_to_all(data, o);
    case Asked::gather:
      return c.gather(data, a.root, o);
    case Asked::scatter:
      return c.scatter(data, a.root, o);
    case Asked::all_gather_v:
      return c.all_gather_v(blocks, o);
    case Asked::reduce_scatter_v:
      return c.reduce_scatter_v(blocks, a.op, o);
    case Asked::all_reduce_list: {
      const std::array<void*, 2> bufs = {b.in, b.out};
      return all_reduce_list(c, {bufs.data(), bufs.data(), std::array<size_t, 2>{a.first, a.count}.data(), 2, a.type},
                             a.op, o);
    }
    case Asked::all_to_all_v: {
      // What rank 0 gets is `first`; what others get is `count`. Each expects that of the others.
      const std::vector<size_t> mine(counts.size(), c.rank() == 0 ? counts[0] : a.count);
      return all_to_all_v(c, {b.in, table}, {b.out, {mine.data(), nullptr}}, a.type, o);
    }
    case Asked::gather_v:
      return gather_v(c, {b.in, nullptr, counts[static_cast<size_t>(c.rank())]}, {b.out, table}, {a.root, a.type}, o);
    case Asked::scatter_v:
      return scatter_v(c, {b.in, table}, {nullptr, b.out, counts[static_cast<size_t>(c.rank())]}, {a.root, a.type}, o);
  }
  return error(hktInternalError, "no such call");
}

// The forms that a call can be made in, with others around it.
enum class Form : uint8_t { blocking, request, group };
constexpr std::array kForms = {Form::blocking, Form::request, Form::group};
constexpr const char* kFormNames[] = {"blocking", "request", "group"};

Status make(Communicator& c, const Memory& memory, const Asked& a, Form form) {
  const std::array<Buffers, kCalls> buffers{Buffers(memory, 0), Buffers(memory, 1), Buffers(memory, 2)};
  const Asked before{Asked::all_reduce}, behind{Asked::all_gather};
  if (form == Form::blocking) return call(c, a, buffers[0], {});
  if (form == Form::group) {
    group_start();
    Status s = call(c, a, buffers[0], {});
    if (s.ok()) s = call(c, behind, buffers[1], {});
    Status end = group_end(nullptr);
    return s.ok() ? std::move(end) : std::move(s);
  }
  std::array<hktRequest_t, 3> r{};
  std::array<Status, 3> ends;
  ends[0] = call(c, before, buffers[0], into(r[0]));
  ends[1] = call(c, a, buffers[1], into(r[1]));
  ends[2] = call(c, behind, buffers[2], into(r[2]));
  for (const size_t i : {2, 0, 1})
    if (r[i] != nullptr) ends[i] = wait(r[i]);
  EXPECT_TRUE(ends[0].ok() || !ends[1].ok());
  return std::move(ends[1].ok() ? ends[2] : ends[1]);
}

struct Mismatch {
  Asked odd, others;
};

// Every collective against another one, and against itself with something else than the others have.
std::vector<Mismatch> matrix() {
  std::vector<Mismatch> all;
  constexpr auto kKinds = static_cast<uint8_t>(std::size(kNames));
  for (uint8_t k = 0; k < kKinds; ++k) {
    const Asked a{static_cast<Asked::Kind>(k)};
    all.push_back({{static_cast<Asked::Kind>((k + 1) % kKinds)}, a});
    all.push_back({a, {static_cast<Asked::Kind>((k + 4) % kKinds)}});
    if (a.kind == Asked::barrier) continue;
    all.push_back({a.with_type(k % 2 == 0 ? hktInt32 : hktUint32), a});
    if (rooted(a.kind)) all.push_back({a.with_root(1), a});
    if (folds(a.kind)) all.push_back({a.with_op(k % 2 == 0 ? hktMax : hktMin), a});
    if (a.kind == Asked::all_reduce_list) {
      for (const uint64_t first : {0, 99, 600}) all.push_back({a.with_first(first), a});
      all.push_back({a.with_first(99).with_count(101), a});  // as many elements in all
    } else if (has_table(a.kind)) {
      for (const uint64_t first : {0, 99, 600}) all.push_back({a.with_first(first), a});
      all.push_back({a, a.with_gap(1)});
    } else if (!of_messages(a.kind)) {
      for (const uint64_t count : {0, 101, 800}) all.push_back({a.with_count(count), a});
    }
  }
  // Blocks by a table or equal ones: the same data, but other calls.
  all.push_back({{Asked::all_gather_v}, {Asked::all_gather}});
  all.push_back({{Asked::reduce_scatter}, {Asked::reduce_scatter_v}});
  all.push_back({{Asked::all_to_all}, {Asked::all_to_all_v}});
  all.push_back({{Asked::all_reduce_list}, {Asked::all_reduce}});
  return all;
}

struct Case {
  int n;
  const char* transport;
};

// Runs a call that does not match what the others call. Every rank gets a mismatch within 5 s; returns the texts.
std::vector<std::string> texts_of(const Case& where,
                                  const std::function<Status(Communicator&, const Memory&)>& make_call) {
  WorldSpec spec;
  spec.n = where.n;
  spec.transport = where.transport;
  spec.timeout_ms = 15'000;
  std::vector<std::string> all(static_cast<size_t>(where.n));
  run_world(spec, [&](Communicator& comm, int rank) {
    const Memory memory(comm);
    Status s = comm.barrier();  // all are there
    ASSERT_TRUE(s.ok()) << s.error().text;
    const int64_t start = now_ns();
    s = make_call(comm, memory);
    // A rank that had nothing to wait for learns it from its next call, its async error or at the latest by waiting.
    while (s.ok() && now_ns() - start < 5'000'000'000) {
      if (comm.async_error() != hktSuccess) s = comm.barrier();
      const timespec nap{0, 1'000'000};
      nanosleep(&nap, nullptr);
    }
    const int64_t took = now_ns() - start;
    ASSERT_FALSE(s.ok()) << "rank " << rank << " saw no error";
    EXPECT_EQ(s.error().code, hktMismatch) << "rank " << rank << ": " << s.error().text;
    EXPECT_LT(took, 5'000'000'000);
    all[static_cast<size_t>(rank)] = s.error().text;
  });
  return all;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

std::vector<Form> forms_of(size_t turn) {
  if (std::getenv("HOCKET_TEST_FULL") != nullptr) return {kForms.begin(), kForms.end()};
  return {kForms[turn % kForms.size()]};
}

class MismatchTest : public testing::TestWithParam<Case> {};

TEST_P(MismatchTest, EveryRankHearsOfBothCalls) {
  const auto n = static_cast<size_t>(GetParam().n);
  const std::vector<Mismatch> all = matrix();
  for (size_t i = 0; i < all.size(); ++i) {
    const Mismatch& m = all[i];
    for (const Form form : forms_of(i + n)) {
      const int odd = (i / 3 + n) % 2 == 0 ? 0 : GetParam().n - 1;  // both, over the numbers of ranks
      const auto got = texts_of(GetParam(), [&](Communicator& comm, const Memory& memory) {
        return make(comm, memory, comm.rank() == odd ? m.odd : m.others, form);
      });
      SCOPED_TRACE(std::string(kNames[m.odd.kind]) + " against " + kNames[m.others.kind] + ", row " +
                   std::to_string(i) + ", " + kFormNames[static_cast<size_t>(form)]);
      for (const std::string& text : got) {
        expect_parts(text, texts(m.odd, GetParam().n));
        expect_parts(text, texts(m.others, GetParam().n));
        expect_parts(text, {"rank " + std::to_string(odd) + " called " + texts(m.odd, GetParam().n).front()});
      }
      if (HasFailure()) return;
    }
  }
}

// The tables of these calls are not compared but each block with what its receiver expects. The odd rank has 100
// elements less or more for rank 0 than that expects, or expects so of it.
TEST_P(MismatchTest, EveryRankHearsOfBothCountsOfABlock) {
  const int n = GetParam().n;
  size_t turn = static_cast<size_t>(n);
  for (const Asked::Kind kind : {Asked::all_to_all_v, Asked::gather_v, Asked::scatter_v}) {
    // `wrong` is the table's entry of the block that goes to rank 0, or of a gather comes from there; rank 0 is the
    // gather's and the scatter's root but for the last ones.
    for (const uint64_t wrong : {0, 99, 101, 700}) {
      for (const Form form : forms_of(turn++)) {
        const bool gathers = kind == Asked::gather_v;
        const int root = kind == Asked::all_to_all_v ? 0 : n - 1;
        const Asked right = Asked{kind}.with_root(root);
        // Whoever is odd does not agree with the only other one that knows the block's size.
        const int odd = n - 1;
        const auto got = texts_of(GetParam(), [&](Communicator& comm, const Memory& memory) {
          return make(comm, memory, comm.rank() == odd ? right.with_first(wrong) : right, form);
        });
        const int from = gathers ? 0 : odd, to = gathers ? odd : 0;
        const uint64_t sent = (gathers ? 100 : wrong) * scale(), expected = (gathers ? wrong : 100) * scale();
        SCOPED_TRACE(std::string(kNames[kind]) + " of " + std::to_string(wrong) + ", " +
                     kFormNames[static_cast<size_t>(form)]);
        for (const std::string& text : got)
          expect_parts(text, {kNames[kind], "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
                                                " of float to rank " + std::to_string(to) + ", which expects " +
                                                std::to_string(expected) + " of float"});
        if (HasFailure()) return;
      }
    }
  }
}

// A message of another type, or one that is too long, is the receive's error alone, in a group and by a request, too.
TEST_P(MismatchTest, MessagesThatDoNotFitAreTheReceivesError) {
  WorldSpec spec;
  spec.n = GetParam().n;
  spec.transport = GetParam().transport;
  run_world(spec, [](Communicator& comm, int rank) {
    const int n = comm.size(), next = (rank + 1) % n, before = (rank + n - 1) % n;
    for (const Form form : kForms) {
      for (const bool too_long : {true, false}) {
        std::vector<float> out(40, static_cast<float>(rank)), in(40, -1), good_in(1, -1);
        const TransferSpec send{out.data(), 40, hktFloat32, next, 1, Channel::user, true};
        const TransferSpec receive{
            in.data(), too_long ? 39u : 40u, too_long ? hktFloat32 : hktInt32, before, 1, Channel::user, false};
        hktRequest_t request = nullptr;
        Status s;
        if (form == Form::blocking) {
          good(comm.transfer(send));
          s = comm.transfer(receive);
        } else if (form == Form::request) {
          good(comm.transfer(receive, into(request)));
          good(comm.transfer(send));
          s = wait(request);
        } else {
          group_start();
          good(comm.transfer(receive));
          good(comm.transfer(send));
          s = group_end(nullptr);
        }
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, hktInvalidUsage) << s.error().text;
        const std::string who = "rank " + std::to_string(before) + " has sent ";
        expect_parts(s.error().text, {who + (too_long ? "40 elements" : "float"), too_long ? "39" : "int32"});
        EXPECT_EQ(in, std::vector<float>(40, -1)) << "nothing is written of what does not fit";
        // The communicator goes on.
        good(comm.transfer({out.data(), 1, hktFloat32, next, 1, Channel::user, true}));
        good(comm.transfer({good_in.data(), 1, hktFloat32, before, 1, Channel::user, false}));
        EXPECT_EQ(good_in[0], static_cast<float>(before));
        good(comm.barrier());
      }
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* t : {"shm", "tcp"})
    for (const int n : {2, 3, 4, 5}) all.push_back({n, t});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Matrix, MismatchTest, testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.transport) + std::to_string(c.param.n); });

}  // namespace
}  // namespace hocket::test
