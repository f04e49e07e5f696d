// The engine executes exactly the plan: its trace equals the plan step by step, for every planner and n <= 16.
#include "inprocess/world.h"
#include "schedule/lower.h"

namespace hocket::test {
namespace {

// Slots with lines enough for the half of 16 chunks that one message may carry, and small enough for several rounds.
RingGeometry rings() {
  RingGeometry g = small_rings();
  g.slot_bytes = 512;
  return g;
}

TEST(Trace, EqualsThePlan) {
  for (const CatalogEntry& entry : catalog()) {
    if (entry.collective > Collective::barrier) continue;  // no call of a communicator runs it
    for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16}) {
      WorldSpec spec;
      spec.n = n;
      spec.transport = "shm";
      spec.algo = entry.name;
      spec.geometry = rings();
      run_world(spec, [&](Communicator& comm, int rank) {
        constexpr uint64_t kCount = 500;
        const uint32_t root = entry.rooted ? static_cast<uint32_t>(n / 2) : 0;
        std::vector<float> data(kCount, 1.0f);
        std::vector<TraceEntry> trace;
        comm.set_trace(&trace);
        Status s;
        switch (entry.collective) {
          case Collective::all_reduce:
            s = comm.all_reduce(data.data(), data.data(), kCount, hktFloat32, hktSum);
            break;
          case Collective::broadcast:
            s = comm.broadcast(data.data(), data.data(), kCount, hktFloat32, static_cast<int>(root));
            break;
          case Collective::barrier:
            s = comm.barrier();
            break;
          default:
            break;
        }
        ASSERT_TRUE(s.ok()) << s.error().text;
        const RankPlan plan = entry.rank_plan(static_cast<uint32_t>(n), root, static_cast<uint32_t>(rank));
        const PlanInfo info = entry.info(static_cast<uint32_t>(n), root);
        const uint64_t per_round =
            entry.collective == Collective::barrier ? 1 : round_elems(info, 4, rings().slot_bytes);
        const uint64_t rounds = entry.collective == Collective::barrier ? 1 : (kCount + per_round - 1) / per_round;
        size_t total = 0;
        for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
          uint32_t round = 0, step = 0;
          for (const TraceEntry& e : trace) {
            if (e.lane != lane) continue;
            ASSERT_EQ(e.round, round) << entry.name << " rank " << rank << " lane " << lane;
            ASSERT_EQ(e.step, step) << entry.name << " rank " << rank << " lane " << lane;
            ++total;
            if (++step == plan.lanes[lane].count) step = 0, ++round;
          }
          if (plan.lanes[lane].count == 0) continue;
          ASSERT_EQ(round, rounds) << entry.name << " rank " << rank << " lane " << lane;
        }
        ASSERT_EQ(total, trace.size());
      });
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace hocket::test
