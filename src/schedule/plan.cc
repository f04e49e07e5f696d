#include "schedule/plan.h"

#include <algorithm>

namespace hocket {

bool operator==(const RankPlan& a, const RankPlan& b) {
  const auto same_dep = [](const Dep& x, const Dep& y) {
    return x.lane == y.lane && x.lag == y.lag && x.step == y.step;
  };
  const auto same_lane = [](const Lane& x, const Lane& y) { return x.first == y.first && x.count == y.count; };
  const auto same_peer = [](const Peer& x, const Peer& y) {
    return x.rank == y.rank && x.tag == y.tag && x.spare == y.spare;
  };
  const auto same = [](const auto& x, const auto& y, const auto& equal) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  };
  return a.steps == b.steps && a.first_dep == b.first_dep && same(a.deps, b.deps, same_dep) &&
         same(a.lanes, b.lanes, same_lane) && same(a.in, b.in, same_peer) && same(a.out, b.out, same_peer) &&
         a.cost.messages == b.cost.messages && a.cost.blocks == b.cost.blocks;
}

}  // namespace hocket
