// World: the ranks of one communicator as threads of this process, brought up the real way.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/unique_id.h"
#include "comm/bringup.h"

namespace hocket::test {

struct WorldSpec {
  int n = 2;
  std::string transport = "auto";  // "shm", "tcp", or "auto"
  int hosts = 1;                   // > 1: ranks are dealt to so many pretended hosts, in blocks
  bool one_by_one = false;         // or one by one
  std::string algo;
  hktDeterminism_t determinism = HKT_DETERMINISM_R1;
  std::optional<std::string> progress;
  std::optional<RingGeometry> geometry;
  std::optional<tcp::Striping> striping;
  int64_t timeout_ms = 20'000;

  std::string label() const {
    return format("n%d_%s%s_%s", n, transport.c_str(), hosts > 1 ? "_hosts" : "",
                  algo.empty() ? "default" : algo.c_str());
  }
};

// Small slots: a few hundred bytes make many rounds, and credit runs out all the time.
inline RingGeometry small_rings() {
  RingGeometry g;
  g.depth = 2;
  g.slot_bytes = 256;
  g.ack_batch = 1;
  return g;
}

// One rank's part in bringing a world up.
inline Result<std::unique_ptr<Communicator>> join(const hktUniqueId& id, const WorldSpec& spec, int rank) {
  CommSettings settings;
  settings.timeout_ms = spec.timeout_ms;
  settings.transport = spec.transport;
  settings.algo = spec.algo;
  settings.determinism = spec.determinism;
  settings.progress = spec.progress;
  settings.geometry = spec.geometry;
  settings.striping = spec.striping;
  settings.host_id = "host" + std::to_string(spec.one_by_one ? rank % spec.hosts : rank * spec.hosts / spec.n);
  const Deadline deadline = Deadline::in_ms(30'000);
  HKT_ASSIGN(const std::unique_ptr<Rendezvous> rendezvous, Rendezvous::open(id, spec.n, rank, deadline));
  return bring_up(*rendezvous, settings, deadline);
}

// Brings the ranks up and calls body(communicator, rank) on a thread for each.
inline void run_world(const WorldSpec& spec, const std::function<void(Communicator&, int)>& body) {
  hktUniqueId id;
  const Status made = make_unique_id(&id);
  ASSERT_TRUE(made.ok()) << made.error().text;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < spec.n; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = join(id, spec, rank);
      ASSERT_TRUE(comm.ok()) << "rank " << rank << ": " << comm.error().text;
      body(**comm, rank);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace hocket::test
