#include "algorithms/zero_copy.h"

#include <array>

namespace hocket {
namespace {

using enum Collective;
constexpr Protocol S = Protocol::slot, M = Protocol::mapped, D = Protocol::direct;

// Where an all-reduce copies results, every rank has entered the call long ago and granted its output: direct. Where a
// rank is the first to move its data, its peer may not be there yet: mapped, the peer fetches it when it comes. (Of
// three all-gathers direct is what is proven: a message for a peer that is late is copied.)
constexpr std::array kPlanners = {
    ZeroCopyPlanner{all_reduce, "ring", {{S, D, S, S}, false, false}},
    ZeroCopyPlanner{all_reduce, "two_shot", {{M, D, S, S}, false, false}},
    ZeroCopyPlanner{all_reduce, "double_tree", {{S, D, S, D}, false, false}},
    ZeroCopyPlanner{all_reduce, "halving_doubling", {{S, S, D, D}, false, false}},
    ZeroCopyPlanner{all_reduce, "swing", {{S, S, D, D}, false, false}},
    ZeroCopyPlanner{all_reduce, "nhr", {{S, D, S, S}, false, false}},
    ZeroCopyPlanner{all_reduce, "circulant", {{S, D, S, S}, false, false}},
    ZeroCopyPlanner{all_reduce, "bidirectional_ring", {{S, D, S, D}, false, false}},
    ZeroCopyPlanner{broadcast, "circulant", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{broadcast, "binomial", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{broadcast, "chain", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{reduce, "flat", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "ring", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "direct", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "circulant", {{D, S, S, S}, false, false}},
    ZeroCopyPlanner{all_gather, "nhr", {{D, S, S, S}, false, false}},
    ZeroCopyPlanner{all_gather, "pat4", {{D, S, S, S}, false, false}},
    ZeroCopyPlanner{all_gather, "pat1", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{reduce_scatter, "direct", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_to_all, "direct", {{M, S, S, S}, true, true}},
    ZeroCopyPlanner{all_to_all, "pairwise", {{M, S, S, S}, true, true}},
    ZeroCopyPlanner{gather, "flat", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{scatter, "flat", {{M, S, S, S}, true, false}},
};

// Where memory is private a receiver fetches what lies in the sender's, for a system call and one copy in place of two.
constexpr std::array kReading = {
    ZeroCopyPlanner{all_reduce, "one_shot", {{M, S, S, S}, true, true}},
    ZeroCopyPlanner{all_reduce, "two_shot", {{M, M, S, S}, true, false}},
    ZeroCopyPlanner{all_reduce, "ring", {{S, M, S, S}, true, false}},
    ZeroCopyPlanner{all_reduce, "double_tree", {{S, M, S, M}, true, false}},
    ZeroCopyPlanner{all_reduce, "halving_doubling", {{S, S, M, M}, true, false}},
    ZeroCopyPlanner{all_reduce, "swing", {{S, S, M, M}, true, false}},
    ZeroCopyPlanner{all_reduce, "nhr", {{S, M, S, S}, true, false}},
    ZeroCopyPlanner{all_reduce, "circulant", {{S, M, S, S}, true, false}},
    ZeroCopyPlanner{all_reduce, "bidirectional_ring", {{S, M, S, M}, true, false}},
    ZeroCopyPlanner{broadcast, "circulant", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{broadcast, "binomial", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{broadcast, "chain", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{reduce, "flat", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "ring", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "direct", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "circulant", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "nhr", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "pat4", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_gather, "pat1", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{reduce_scatter, "direct", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{all_to_all, "direct", {{M, S, S, S}, true, true}},
    ZeroCopyPlanner{all_to_all, "pairwise", {{M, S, S, S}, true, true}},
    ZeroCopyPlanner{gather, "flat", {{M, S, S, S}, true, false}},
    ZeroCopyPlanner{scatter, "flat", {{M, S, S, S}, true, false}},
};

const ZeroCopy* find(std::span<const ZeroCopyPlanner> planners, Collective collective, std::string_view name) {
  for (const ZeroCopyPlanner& p : planners)
    if (p.collective == collective && p.name == name) return &p.way;
  return nullptr;
}

}  // namespace

std::span<const ZeroCopyPlanner> zero_copy_planners() { return kPlanners; }
std::span<const ZeroCopyPlanner> reading_planners() { return kReading; }

const ZeroCopy* zero_copy(Collective collective, std::string_view name) { return find(kPlanners, collective, name); }
const ZeroCopy* reading(Collective collective, std::string_view name) { return find(kReading, collective, name); }

}  // namespace hocket
