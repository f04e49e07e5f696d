// One call of more bytes than 31 bits can count. HOCKET_TEST_FULL=1 makes it 3 GiB, otherwise it is 3 MiB.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

#include "inprocess/world.h"

namespace hocket::test {
namespace {

constexpr int kRanks = 2;
constexpr uint64_t kMiB = uint64_t{1} << 20;

// MemAvailable of /proc/meminfo; 0 if there is none.
uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

// Differs from rank to rank, from element to element and where a 32-bit number of an element would begin again.
int8_t value(int rank, uint64_t i) {
  const uint64_t x = i * static_cast<uint64_t>(2 * rank + 1) + (i >> 8) * 5 + (i >> 20) * 3 + (i >> 31) * 17;
  return static_cast<int8_t>(static_cast<uint8_t>(x));
}

TEST(Large, AllReduceOfInt8) {
  const bool full = std::getenv("HOCKET_TEST_FULL") != nullptr;
  const uint64_t count = (full ? 3 * 1024 : 3) * kMiB;
  if (full && available_bytes() < kRanks * count + 512 * kMiB)
    GTEST_SKIP() << "less than 6.5 GiB of memory are available";
  WorldSpec spec;
  spec.n = kRanks;
  spec.transport = "shm";
  spec.timeout_ms = 120'000;
  run_world(spec, [count](Communicator& comm, int rank) {
    const std::unique_ptr<int8_t[]> data(new int8_t[count]);
    for (uint64_t i = 0; i < count; ++i) data[i] = value(rank, i);
    const Status s = comm.all_reduce(data.get(), data.get(), count, hktInt8, hktSum);
    ASSERT_TRUE(s.ok()) << s.error().text;
    uint64_t wrong = 0, first = count;
    for (uint64_t i = count; i-- > 0;) {
      const auto sum = static_cast<uint8_t>(static_cast<uint8_t>(value(0, i)) + static_cast<uint8_t>(value(1, i)));
      if (data[i] == static_cast<int8_t>(sum)) continue;
      ++wrong;
      first = i;
    }
    EXPECT_EQ(wrong, 0u) << "of " << count << " elements, the first one is " << first;
  });
}

}  // namespace
}  // namespace hocket::test
