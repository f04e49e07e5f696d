// The corpus of the fuzzer of bring-up, and bytes made from it at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz/bootstrap_target.h"

namespace hocket {
namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(HOCKET_TESTS_FOLDER "/fuzz/corpus_bootstrap")) {
    std::ifstream in(entry.path(), std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::sort(out.begin(), out.end());  // a seed means the same everywhere
  return out;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> all, uint64_t seed) : all_(std::move(all)), random_(seed) {}

  std::string next() {
    std::string bytes = all_[below(all_.size())];
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  // The first byte stays: it says who hears the rest.
  void change(std::string& bytes) {
    const size_t at = 1 + below(bytes.size());
    const std::string& other = all_[below(all_.size())];
    switch (below(8)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, 1, static_cast<char>(random_()));
        break;
      case 2:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      case 3:
        bytes.erase(std::min(at, bytes.size()), 1 + below(9));
        break;
      case 4: {
        const size_t from = below(other.size());
        bytes.insert(at, other.substr(from, 1 + below(40)));
        break;
      }
      case 5: {
        const size_t from = below(bytes.size());
        bytes.insert(at, bytes.substr(from, 1 + below(40)));
        break;
      }
      case 6:
        // Another number where there may be one.
        if (at + 4 <= bytes.size()) {
          static constexpr uint32_t kNumbers[] = {0, 1, 2, 0x7f, 0xff, 0x100, 0xffff, 0x10000, 0x7fffffff, 0xffffffff};
          const uint32_t number = kNumbers[below(std::size(kNumbers))];
          for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
        }
        break;
      default:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
    }
  }

  const std::vector<std::string> all_;
  std::mt19937_64 random_;
};

TEST(BootstrapMutation, TheCorpusIsRead) {
  const std::vector<std::string> all = corpus();
  std::set<char> targets;
  for (const std::string& bytes : all) {
    ASSERT_FALSE(bytes.empty());
    targets.insert(bytes[0]);
    try_bytes(bytes);
  }
  EXPECT_EQ(targets, (std::set<char>{'c', 'm', 'p', 's', 't', 'v'}));
}

TEST(BootstrapMutation, NoBytesBringBringUpDown) {
  const char* wanted = std::getenv("HOCKET_FUZZ_RUNS");
  const int64_t runs = wanted == nullptr ? 20'000 : parse_int(wanted).value_or(20'000);
  const char* given = std::getenv("HOCKET_FUZZ_SEED");
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  std::printf("HOCKET_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Mutator mutator(corpus(), seed);
  for (int64_t i = 0; i < runs; ++i) try_bytes(mutator.next());
}

}  // namespace
}  // namespace hocket
