#include "conformance/fabric.h"

namespace hocket::test {

bool wait_until(Rank& rank, const std::function<bool()>& ready, Deadline deadline, int polls) {
  for (int i = 0; i < polls; ++i) {
    rank.transport->progress();
    if (ready()) return true;
  }
  std::vector<pollfd> fds;
  while (!deadline.passed()) {
    const uint32_t armed = rank.bell != nullptr ? rank.bell->arm(rank.fence) : 0;
    rank.transport->progress();
    const bool done = ready();
    if (!done) {
      const int nap = deadline.left_ms(rank.nap_ms);
      fds.clear();
      rank.transport->poll_set(fds);
      if (!fds.empty())
        poll(fds.data(), fds.size(), nap);
      else if (rank.bell != nullptr)
        rank.bell->sleep(armed, int64_t{nap} * 1'000'000);
      else
        std::this_thread::yield();
    }
    if (rank.bell != nullptr) rank.bell->disarm();
    if (done) return true;
  }
  rank.transport->progress();
  return ready();
}

}  // namespace hocket::test
