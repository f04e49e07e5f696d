#include "perf_collective.h"

#include <cstring>
#include <numeric>

#include "base/types.h"
#include "schedule/collective.h"

namespace hocket::tool {
namespace {

constexpr int kTag = 0;

// A send and a receive at once, of as many elements.
struct Exchange {
  const void* send;
  int to;
  void* recv;
  int from;
  uint64_t count;
};
hktResult_t exchange(const PerfCall& c, const Exchange& e) {
  hktResult_t r = hktGroupStart();
  if (r == hktSuccess) r = hktSend(e.send, e.count, c.type, e.to, kTag, c.comm, nullptr);
  if (r == hktSuccess) r = hktRecv(e.recv, e.count, c.type, e.from, kTag, c.comm, nullptr);
  const hktResult_t end = hktGroupEnd(c.options);  // closes the group, whatever went wrong in it
  return r != hktSuccess ? r : end;
}

// Each rank sends to the next and receives from the one before.
hktResult_t send_receive(const PerfCall& c) {
  const int next = (c.rank + 1) % c.nranks, before = (c.rank + c.nranks - 1) % c.nranks;
  return exchange(c, {c.send, next, c.recv, before, c.count});
}

// All-gather in log2(n) exchanges, each with what a rank has so far: each waits for the one before it.
hktResult_t hypercube(const PerfCall& c) {
  const uint64_t block = c.count * type_size(c.type);
  auto* all = static_cast<unsigned char*>(c.recv);
  const auto at = [&](int rank) { return all + static_cast<uint64_t>(rank) * block; };
  if (c.send != at(c.rank)) std::memcpy(at(c.rank), c.send, block);
  for (int bit = 1; bit < c.nranks; bit *= 2) {
    if (c.options != nullptr && bit > 1)
      if (const hktResult_t r = hktRequestWait(c.options->request); r != hktSuccess) return r;
    const int mine = c.rank & ~(bit - 1), theirs = mine ^ bit, peer = c.rank ^ bit;
    const uint64_t count = c.count * static_cast<uint64_t>(bit);
    if (const hktResult_t r = exchange(c, {at(mine), peer, at(theirs), peer, count}); r != hktSuccess) return r;
  }
  return hktSuccess;
}

hktResult_t all_to_all_v(const PerfCall& c) {
  return hktAllToAllV(c.send, c.sendcounts.data(), c.sdispls.data(), c.recv, c.recvcounts.data(), c.rdispls.data(),
                      c.type, c.comm, c.options);
}

// Elements that a rank sends to another one.
uint64_t uneven(uint64_t count, int from, int to, int nranks) {
  const auto n = static_cast<uint64_t>(nranks);
  const auto share = static_cast<uint64_t>((to - from + nranks) % nranks) + 1;  // 1 .. n, each once per row and column
  return count * 2 / (n + 1) * share;
}

// In the order of nccl-tests' list, which is that of the alphabet.
constexpr PerfCollective kAll[] = {
    {"all_gather", Collective::all_gather,
     [](const PerfCall& c) { return hktAllGather(c.send, c.recv, c.count, c.type, c.comm, c.options); }},
    {"all_reduce", Collective::all_reduce,
     [](const PerfCall& c) { return hktAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.options); }},
    {"alltoall", Collective::all_to_all,
     [](const PerfCall& c) { return hktAllToAll(c.send, c.recv, c.count, c.type, c.comm, c.options); }},
    {"alltoallv", Collective::all_to_all, all_to_all_v, Traffic::uneven},
    {"broadcast", Collective::broadcast,
     [](const PerfCall& c) { return hktBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, c.options); }},
    {"gather", Collective::gather,
     [](const PerfCall& c) { return hktGather(c.send, c.recv, c.count, c.type, c.root, c.comm, c.options); }},
    {"hypercube", Collective::all_gather, hypercube, Traffic::hypercube},
    {"reduce", Collective::reduce,
     [](const PerfCall& c) { return hktReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, c.options); }},
    {"reduce_scatter", Collective::reduce_scatter,
     [](const PerfCall& c) { return hktReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.options); }},
    {"scatter", Collective::scatter,
     [](const PerfCall& c) { return hktScatter(c.send, c.recv, c.count, c.type, c.root, c.comm, c.options); }},
    {"sendrecv", Collective::all_reduce, send_receive, Traffic::shift},
    {"barrier", Collective::barrier, [](const PerfCall& c) { return hktBarrier(c.comm, c.options); }},
};

constexpr uint64_t kBlockBytes = 16;  // a block is a multiple of this

}  // namespace

std::span<const PerfCollective> perf_collectives() { return kAll; }

const PerfCollective* find_perf_collective(std::string_view name) {
  for (const PerfCollective& c : kAll)
    if (name == c.name) return &c;
  return nullptr;
}

uint64_t perf_count(Collective collective, uint64_t bytes, uint64_t element_bytes, int nranks) {
  if (collective == Collective::barrier) return 0;
  const uint64_t elements = bytes / element_bytes;
  if (layout(collective) != Layout::blocks) return elements;
  const uint64_t unit = kBlockBytes / element_bytes;
  return elements / static_cast<uint64_t>(nranks) / unit * unit;
}

uint64_t perf_in_elements(Collective collective, uint64_t count, int nranks) {
  const bool blocks = layout(collective) == Layout::blocks && !in_is_own_block(collective);
  return blocks ? count * static_cast<uint64_t>(nranks) : count;
}

uint64_t perf_out_elements(Collective collective, uint64_t count, int nranks) {
  const bool blocks = layout(collective) == Layout::blocks && !out_is_own_block(collective);
  return blocks ? count * static_cast<uint64_t>(nranks) : count;
}

const char* unsupported_ranks(const PerfCollective& test, int nranks) {
  const bool power = (nranks & (nranks - 1)) == 0;
  return test.traffic == Traffic::hypercube && !power ? "a hypercube has a power of two of ranks" : nullptr;
}

void make_uneven(PerfCall& call) {
  const auto n = static_cast<size_t>(call.nranks);
  for (auto* table : {&call.sendcounts, &call.sdispls, &call.recvcounts, &call.rdispls}) table->assign(n, 0);
  for (size_t r = 0; r < n; ++r) {
    call.sendcounts[r] = uneven(call.count, call.rank, static_cast<int>(r), call.nranks);
    call.recvcounts[r] = uneven(call.count, static_cast<int>(r), call.rank, call.nranks);
  }
  std::exclusive_scan(call.sendcounts.begin(), call.sendcounts.end(), call.sdispls.begin(), size_t{0});
  std::exclusive_scan(call.recvcounts.begin(), call.recvcounts.end(), call.rdispls.begin(), size_t{0});
}

std::vector<Piece> perf_expected(const PerfCollective& test, const PerfCall& call) {
  const uint64_t count = call.count;
  const int rank = call.rank, nranks = call.nranks;
  const uint64_t own = static_cast<uint64_t>(rank) * count;  // where the block for this rank begins
  std::vector<Piece> pieces;
  if (test.traffic == Traffic::shift) return {{0, count, (rank + nranks - 1) % nranks, 0}};
  if (test.traffic == Traffic::uneven) {
    for (int s = 0; s < nranks; ++s) {
      PerfCall theirs = call;
      theirs.rank = s;
      make_uneven(theirs);
      const auto i = static_cast<size_t>(s);
      pieces.push_back({call.rdispls[i], call.recvcounts[i], s, theirs.sdispls[static_cast<size_t>(rank)]});
    }
    return pieces;
  }
  switch (test.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return {{0, count, kReduced, 0}};
    case Collective::reduce_scatter:
      return {{0, count, kReduced, own}};
    case Collective::broadcast:
      return {{0, count, call.root, 0}};
    case Collective::scatter:
      return {{0, count, call.root, own}};
    case Collective::all_gather:
    case Collective::gather:
      for (int s = 0; s < nranks; ++s) pieces.push_back({static_cast<uint64_t>(s) * count, count, s, 0});
      return pieces;
    case Collective::all_to_all:
      for (int s = 0; s < nranks; ++s) pieces.push_back({static_cast<uint64_t>(s) * count, count, s, own});
      return pieces;
    case Collective::barrier:
      break;
  }
  return {};
}

double alg_factor(const PerfCollective& test, int nranks) {
  return test.traffic == Traffic::hypercube ? static_cast<double>(nranks - 1) / nranks : 1;
}

double bus_factor(const PerfCollective& test, int nranks) {
  if (test.traffic == Traffic::shift || test.traffic == Traffic::hypercube) return 1;
  const double others = static_cast<double>(nranks - 1) / nranks;
  if (test.collective == Collective::all_reduce) return 2 * others;
  return layout(test.collective) == Layout::blocks ? others : 1;
}

}  // namespace hocket::tool
