// The file of what things cost on a machine: written and read, and what else somebody may have put there.
#include "select/tune_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace hocket::select {
namespace {

constexpr const char* kMachine = "a machine";

Costs some_costs() {
  Costs c;
  uint64_t value = 17;
  for (const CostField& f : kCostFields) c.*f.field = value += 1000;
  return c;
}

// XDG_CACHE_HOME is a fresh folder for as long as this lives.
class TuneFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "tune.XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST_F(TuneFile, ComesBackAsItWasWritten) {
  const std::string path = tune_path();
  EXPECT_EQ(path.rfind(folder_ + "/hocket/tune-", 0), 0u) << path;
  EXPECT_EQ(costs_of_this_machine({}), Costs{}) << "there is none yet";
  ASSERT_TRUE(write_tune(path, some_costs()).ok());
  Result<Costs> costs = read_tune(path);
  ASSERT_TRUE(costs.ok()) << costs.error().text;
  EXPECT_EQ(*costs, some_costs());
  EXPECT_EQ(costs_of_this_machine({}), some_costs());
  ASSERT_TRUE(write_tune(path, Costs{}).ok()) << "over one that is there";
  EXPECT_EQ(*read_tune(path), Costs{});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/hocket"), {}), 1) << "nothing is left beside";
}

TEST_F(TuneFile, WhatIsWrongIsNamed) {
  const std::string good = tune_text(some_costs(), kMachine);
  ASSERT_TRUE(parse_tune(good, kMachine, "FILE").ok());
  struct Wrong {
    std::string text, field;
  };
  const Wrong all[] = {
      {"", "format"},
      {"[]", "format"},
      {"{", "format"},
      {"null", "format"},
      {std::string(1000, '['), "format"},
      {std::string(1000, '{'), "format"},
      {good.substr(0, good.size() / 2), "format"},
      {std::string(70'000, ' '), "size"},
      {"{}", "hocket_tune"},
      {replaced(good, "\"hocket_tune\": 1", "\"hocket_tune\": 2"), "hocket_tune"},
      {replaced(good, "\"hocket_tune\": 1", "\"hocket_tune\": \"1\""), "hocket_tune"},
      {replaced(good, "a machine", "another one"), "machine"},
      {replaced(good, "\"a machine\"", "7"), "machine"},
      {replaced(good, "1017", "0"), "costs.step"},
      {replaced(good, "1017", "-5"), "costs.step"},
      {replaced(good, "1017", "1.5"), "costs.step"},
      {replaced(good, "1017", "1e300"), "costs.step"},
      {replaced(good, "1017", "1000000001"), "costs.step"},
      {replaced(good, "1017", "99999999999999999999999"), "costs.step"},
      {replaced(good, "1017", "\"1017\""), "costs.step"},
      {replaced(good, "\"wire\"", "\"wir\""), "costs.wire"},
      {replaced(good, "\"step\": 1017,", "\"step\": 1017, \"more\": 1,"), "costs"},
  };
  for (const Wrong& w : all) {
    const Result<Costs> costs = parse_tune(w.text, kMachine, "FILE");
    ASSERT_FALSE(costs.ok()) << w.text.substr(0, 200);
    EXPECT_EQ(costs.error().text.rfind("FILE: " + w.field + ": ", 0), 0u) << costs.error().text;
    EXPECT_EQ(costs.error().text.find('\n'), std::string::npos);
    EXPECT_LT(costs.error().text.size(), 600u);
  }
}

TEST_F(TuneFile, ABrokenOneLeavesTheDefaults) {
  const std::string path = tune_path();
  ASSERT_TRUE(write_tune(path, some_costs()).ok());
  std::ofstream(path) << "{ \"hocket_tune\": 1 ";
  testing::internal::CaptureStderr();
  EXPECT_EQ(costs_of_this_machine({}), Costs{});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("WARN"), std::string::npos) << said;
  EXPECT_NE(said.find(path + ": format: "), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(TuneFile, NothingButAFileIsRead) {
  const std::string path = tune_path();
  std::filesystem::create_directories(folder_ + "/hocket");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // opening it would wait for a writer
  EXPECT_FALSE(read_tune(path).ok());
  ASSERT_EQ(unlink(path.c_str()), 0);
  std::filesystem::create_directory(path);
  EXPECT_FALSE(read_tune(path).ok());
  EXPECT_EQ(costs_of_this_machine({}), Costs{});
}

TEST_F(TuneFile, WithoutAHomeThereIsNone) {
  const char* const home = getenv("HOME");
  const std::string kept = home != nullptr ? home : "";
  setenv("XDG_CACHE_HOME", "relative/paths/are/ignored", 1);
  unsetenv("HOME");
  EXPECT_EQ(tune_path(), "");
  EXPECT_EQ(costs_of_this_machine({}), Costs{});
  setenv("HOME", "/somewhere", 1);
  EXPECT_EQ(tune_path().rfind("/somewhere/.cache/hocket/tune-", 0), 0u);
  if (home != nullptr) setenv("HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace hocket::select
