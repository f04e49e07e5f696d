// One rank sums with itself through hocket.hpp. Prints "c++: ok".
#include <cstdio>
#include <hocket/hocket.hpp>
#include <vector>

int main() {
  hocket::Communicator comm = hocket::Communicator::from_env();
  std::vector<double> v{1.0, 2.0, 3.0};
  comm.all_reduce(std::span(v), hocket::Op::sum);
  if (comm.rank() != 0 || comm.size() != 1 || v != std::vector<double>{1.0, 2.0, 3.0}) {
    std::fprintf(stderr, "wrong: rank %d of %d, %g %g %g\n", comm.rank(), comm.size(), v[0], v[1], v[2]);
    return 1;
  }
  std::puts("c++: ok");
}
