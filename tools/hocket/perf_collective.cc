#include "perf_collective.h"

#include "schedule/collective.h"

namespace hocket::tool {
namespace {

// In the order of nccl-tests' list, which is that of the alphabet.
constexpr PerfCollective kAll[] = {
    {"all_gather", Collective::all_gather,
     [](const PerfCall& c) { return hktAllGather(c.send, c.recv, c.count, c.type, c.comm, nullptr); }},
    {"all_reduce", Collective::all_reduce,
     [](const PerfCall& c) { return hktAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, nullptr); }},
    {"alltoall", Collective::all_to_all,
     [](const PerfCall& c) { return hktAllToAll(c.send, c.recv, c.count, c.type, c.comm, nullptr); }},
    {"broadcast", Collective::broadcast,
     [](const PerfCall& c) { return hktBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, nullptr); }},
    {"gather", Collective::gather,
     [](const PerfCall& c) { return hktGather(c.send, c.recv, c.count, c.type, c.root, c.comm, nullptr); }},
    {"reduce", Collective::reduce,
     [](const PerfCall& c) { return hktReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, nullptr); }},
    {"reduce_scatter", Collective::reduce_scatter,
     [](const PerfCall& c) { return hktReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, nullptr); }},
    {"scatter", Collective::scatter,
     [](const PerfCall& c) { return hktScatter(c.send, c.recv, c.count, c.type, c.root, c.comm, nullptr); }},
    {"barrier", Collective::barrier, [](const PerfCall& c) { return hktBarrier(c.comm, nullptr); }},
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

std::vector<Piece> perf_expected(Collective collective, int rank, int nranks, const PerfCall& call) {
  const uint64_t count = call.count;
  const uint64_t own = static_cast<uint64_t>(rank) * count;  // where the block for this rank begins
  std::vector<Piece> pieces;
  switch (collective) {
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

double bus_factor(Collective collective, int nranks) {
  const double others = static_cast<double>(nranks - 1) / nranks;
  if (collective == Collective::all_reduce) return 2 * others;
  return layout(collective) == Layout::blocks ? others : 1;
}

}  // namespace hocket::tool
