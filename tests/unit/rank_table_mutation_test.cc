// The corpus of the fuzzer, and texts made from it at random.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz/rank_table_target.h"

namespace hocket::rank_table {
namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> out;
  for (const char* folder : {"fuzz/corpus", "data/rank_tables"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(HOCKET_TESTS_FOLDER "/") + folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  return out;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> texts, uint64_t seed) : texts_(std::move(texts)), random_(seed) {}

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  // Part of a text: from one quote, bracket or comma to another, so that what is exchanged is often a value.
  static std::string part(const std::string& text, size_t from, size_t words) {
    size_t to = from;
    for (size_t i = 0; i < words && to != std::string::npos; ++i) to = text.find_first_of("\"{}[],:", to + 1);
    return text.substr(from, to == std::string::npos ? to : to - from);
  }

  void change(std::string& text) {
    const size_t at = below(text.size() + 1);
    const std::string& other = texts_[below(texts_.size())];
    switch (below(7)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(random_()));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 3:
        text.erase(at, part(text, at, 1 + below(6)).size());
        break;
      case 4:
        text.insert(at, part(other, below(other.size()), 1 + below(12)));
        break;
      case 5:
        text.insert(at, part(text, at, 1 + below(12)));
        break;
      default:
        // Another digit, for a digit.
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          text[digit] = static_cast<char>('0' + below(10));
        }
    }
  }

  const std::vector<std::string> texts_;
  std::mt19937_64 random_;
};

TEST(RankTableMutation, TheCorpusIsRead) {
  const std::vector<std::string> texts = corpus();
  ASSERT_GT(texts.size(), 25u);
  for (const std::string& text : texts) try_text(text);
}

TEST(RankTableMutation, NoTextBringsTheReaderDown) {
  const char* wanted = std::getenv("HOCKET_FUZZ_RUNS");
  const int64_t runs = wanted == nullptr ? 200'000 : parse_int(wanted).value_or(200'000);
  const char* given = std::getenv("HOCKET_FUZZ_SEED");
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  std::printf("HOCKET_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Mutator mutator(corpus(), seed);
  for (int64_t i = 0; i < runs; ++i) try_text(mutator.next());
}

}  // namespace
}  // namespace hocket::rank_table
