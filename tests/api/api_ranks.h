// Ranks as threads that see nothing but the public interface, and what a refused call looks like.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::test {

inline hktConfig_t quick_config() {
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.init_timeout_ms = 20'000;
  config.timeout_ms = 20'000;
  return config;
}

// Brings up `n` ranks as threads by a unique id and calls body(comm, rank) on each.
inline void with_ranks(int n, const std::function<void(hktComm_t, int)>& body) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess) << hktGetLastError();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      const hktConfig_t config = quick_config();
      hktComm_t comm = nullptr;
      ASSERT_EQ(hktCommInitRank(&comm, n, id, rank, &config), hktSuccess)
          << "rank " << rank << ": " << hktGetLastError();
      body(comm, rank);
      EXPECT_EQ(hktCommDestroy(comm), hktSuccess) << hktGetLastError();
    });
  }
  for (std::thread& t : threads) t.join();
}

// `result` is `code`, and the text of this thread has all the words.
inline void expect_failure(hktResult_t result, hktResult_t code, const std::vector<std::string>& words) {
  EXPECT_EQ(result, code) << hktGetErrorString(result);
  const std::string text = hktGetLastError();
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

inline void good(hktResult_t r) { ASSERT_EQ(r, hktSuccess) << hktGetLastError(); }

// Options of a call that leaves its request in `request`.
inline hktCallOptions_t into(hktRequest_t& request) {
  hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
  o.request = &request;
  return o;
}

// Enumerators that do not exist, in the range that the enumerations can hold.
inline const std::array kNoTypes = {static_cast<hktDataType_t>(17), static_cast<hktDataType_t>(31)};
inline const std::array kNoOps = {static_cast<hktRedOp_t>(11), static_cast<hktRedOp_t>(15)};

}  // namespace hocket::test
