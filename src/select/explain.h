// Why this plan: the choice for one size, what it was chosen from, and what no plan can undercut. For people; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hocket/hocket.h"
#include "select/forecast.h"

namespace hocket::select {

// What a communicator chooses by.
struct Grounds {
  Facts facts;
  Costs costs;
  std::string algo;
  hktDeterminism_t determinism = HKT_DETERMINISM_R1;
};

struct Explanation {
  const CatalogEntry* chosen = nullptr;
  bool forced = false;          // by HOCKET_ALGO
  Way way = Way::copying;       // of the chosen one's messages
  std::vector<Ranked> ranking;  // all that may be chosen, the fastest first; empty where there is no forecast
  uint64_t bound_ps = 0;        // see lower_bound

  bool is_chosen(const Ranked& r) const { return r.planner == chosen && r.way == way; }
  // Of the choice; 0 where there is no forecast.
  uint64_t chosen_ps() const;
};

// An error: as build's.
Result<Explanation> explain(const Grounds& grounds, Collective collective, uint64_t bytes);

// No plan takes less time for so many bytes (of the larger buffer): one message has to be waited for; and CPUs that
// share the work evenly read every input once and write every output once, or, where no two ranks share memory, send
// and receive what has to leave the ranks at least.
uint64_t lower_bound(Collective collective, const Facts& facts, const Costs& costs, uint64_t bytes);

// "ring", or "ring reading" if its large messages are read from where they lie.
std::string name_of(const Ranked& r);
// One line: "two_shot, predicted 84 us (lower bound 24 us); then ring 90 us, circulant 91 us".
std::string sentence(const Explanation& e);

}  // namespace hocket::select
