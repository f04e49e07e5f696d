// Ten steps that survive a crash: rank 0 keeps a checkpoint, and `hocket run` starts all ranks again.
//
//   hocket run --np 4 --max-restarts 1 -- example_checkpoint FILE [STEP]
//
// With STEP, rank 1 of the first start kills itself there.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <hocket/hocket.hpp>
#include <span>
#include <string>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string file = argv[1], next = file + ".next";
  const int crash_at = argc > 2 ? std::atoi(argv[2]) : -1;
  const char* restarts = std::getenv("HOCKET_RESTART_COUNT");
  const bool first_start = restarts == nullptr || std::atoi(restarts) == 0;

  hocket::Communicator comm = hocket::Communicator::from_env();
  double state[2] = {0, 1};  // the next step, and the model
  if (comm.rank() == 0) std::ifstream(file) >> state[0] >> state[1];
  comm.broadcast(std::span(state), 0);
  const int begin = static_cast<int>(state[0]);

  for (int step = begin; step < 10; ++step) {
    if (first_start && step == crash_at && comm.rank() == 1) std::raise(SIGKILL);
    double gradient[1] = {state[1] * (comm.rank() + 1)};
    comm.all_reduce(std::span(gradient), hocket::Op::sum);
    state[0] = step + 1;
    state[1] += gradient[0];
    // Written under another name first: a crash leaves the old one or the new one, whole.
    if (comm.rank() == 0) {
      std::ofstream(next) << std::to_string(step + 1) << ' ' << std::to_string(state[1]) << '\n';
      std::rename(next.c_str(), file.c_str());
    }
    comm.barrier();  // nobody is a step ahead of the checkpoint
  }
  std::printf("rank %d of %d: steps %d to 9, model %.0f\n", comm.rank(), comm.size(), begin, state[1]);
}
