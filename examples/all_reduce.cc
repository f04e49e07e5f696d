#include <cstdio>
#include <hocket/hocket.hpp>
#include <vector>

int main() {
  hocket::Communicator comm = hocket::Communicator::from_env();  // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
  std::vector<float> gradients(1000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(std::span(gradients), hocket::Op::sum);
  std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), static_cast<double>(gradients[0]));
}
