// The C ABI: what it refuses, with which code and text, and what it does at its edges.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api_ranks.h"
#include "hocket/hocket.h"
#include "hocket/hocket.hpp"

namespace hocket::test {
namespace {

TEST(Library, Version) {
  int version = 0;
  EXPECT_EQ(hktGetVersion(&version), hktSuccess);
  EXPECT_EQ(version, HKT_VERSION_CODE);
  EXPECT_EQ(HKT_VERSION(1, 2, 3), 10203);
  expect_failure(hktGetVersion(nullptr), hktInvalidArgument, {"hktGetVersion", "version", "null"});
}

TEST(Library, TypeSizes) {
  const std::map<hktDataType_t, size_t> sizes = {
      {hktInt8, 1},       {hktUint8, 1},      {hktInt16, 2},   {hktUint16, 2},    {hktInt32, 4},      {hktUint32, 4},
      {hktInt64, 8},      {hktUint64, 8},     {hktFloat16, 2}, {hktBfloat16, 2},  {hktFloat32, 4},    {hktFloat64, 8},
      {hktFloat8e4m3, 1}, {hktFloat8e5m2, 1}, {hktBool, 1},    {hktComplex64, 8}, {hktComplex128, 16}};
  for (const auto& [type, size] : sizes) {
    size_t bytes = 0;
    EXPECT_EQ(hktGetTypeSize(type, &bytes), hktSuccess);
    EXPECT_EQ(bytes, size) << "type " << type;
  }
  for (const hktDataType_t type : kNoTypes) {
    size_t bytes = 77;
    expect_failure(hktGetTypeSize(type, &bytes), hktInvalidArgument,
                   {"hktGetTypeSize", "type is " + std::to_string(type), "hktDataType_t"});
    EXPECT_EQ(bytes, 77u);
  }
  expect_failure(hktGetTypeSize(hktInt8, nullptr), hktInvalidArgument, {"hktGetTypeSize", "bytes", "null"});
}

TEST(Library, ErrorStrings) {
  std::set<std::string> texts;
  for (int code = hktSuccess; code <= hktAborted; ++code)
    texts.insert(hktGetErrorString(static_cast<hktResult_t>(code)));
  EXPECT_EQ(texts.size(), 11u) << "two codes have the same text";
  EXPECT_EQ(texts.count("unknown result code"), 0u);
  EXPECT_STREQ(hktGetErrorString(static_cast<hktResult_t>(15)), "unknown result code");
}

TEST(Library, TheLastErrorBelongsToItsThread) {
  EXPECT_EQ(hktGetVersion(nullptr), hktInvalidArgument);
  std::thread([] { EXPECT_STREQ(hktGetLastError(), ""); }).join();
  int version = 0;
  EXPECT_EQ(hktGetVersion(&version), hktSuccess);
  EXPECT_NE(std::string(hktGetLastError()).find("hktGetVersion"), std::string::npos) << "kept until the next failure";
}

TEST(Init, RefusesBadArguments) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  expect_failure(hktGetUniqueId(nullptr), hktInvalidArgument, {"hktGetUniqueId", "id", "null"});
  expect_failure(hktCommInitRank(nullptr, 1, id, 0, nullptr), hktInvalidArgument, {"hktCommInitRank", "comm", "null"});

  char somewhere = 0;
  const auto refused = [&](const std::function<hktResult_t(hktComm_t*)>& init, const std::vector<std::string>& words) {
    auto* comm = reinterpret_cast<hktComm_t>(&somewhere);
    expect_failure(init(&comm), hktInvalidArgument, words);
    EXPECT_EQ(comm, nullptr);
  };
  struct Place {
    int nranks, rank;
    const char* word;
  };
  for (const Place& p : {Place{0, 0, "number of ranks is 0"}, Place{-1, 0, "number of ranks is -1"},
                         Place{2, 2, "rank is 2 of 2"}, Place{2, -1, "rank is -1"}}) {
    refused([&](hktComm_t* c) { return hktCommInitRank(c, p.nranks, id, p.rank, nullptr); },
            {"hktCommInitRank", p.word});
    hktStore_t store{};
    refused([&](hktComm_t* c) { return hktCommInitStore(c, p.nranks, p.rank, &store, nullptr); },
            {"hktCommInitStore", p.word});
  }
  refused([](hktComm_t* c) { return hktCommInitRank(c, 1, hktUniqueId{}, 0, nullptr); },
          {"unique id", "hktGetUniqueId"});
  refused([](hktComm_t* c) { return hktCommInitUrl(c, nullptr, nullptr); }, {"hktCommInitUrl", "url", "null"});
  for (const char* url :
       {"", "tcp", "http://a:1", "tcp://", "tcp://a", "tcp://a:99999?rank=0&world_size=1", "file://x"})
    refused([&](hktComm_t* c) { return hktCommInitUrl(c, url, nullptr); }, {url});
  refused([](hktComm_t* c) { return hktCommInitStore(c, 1, 0, nullptr, nullptr); },
          {"hktCommInitStore", "store", "null"});
}

TEST(Init, RefusesAStoreWithHoles) {
  const auto put = [](void*, const char*, const void*, size_t) { return 0; };
  const auto get = [](void*, const char*, void*, size_t*) { return 0; };
  const auto wait = [](void*, const char*, int64_t) { return 0; };
  const hktStore_t whole{sizeof(hktStore_t), nullptr, put, get, wait};
  std::array<hktStore_t, 4> holes = {whole, whole, whole, whole};
  holes[0].size = 0;
  holes[1].put = nullptr;
  holes[2].get = nullptr;
  holes[3].wait = nullptr;
  for (const hktStore_t& store : holes) {
    hktComm_t comm = nullptr;
    expect_failure(hktCommInitStore(&comm, 1, 0, &store, nullptr), hktInvalidArgument, {"hktCommInitStore", "store"});
  }
}

// A program that was compiled before the config had its later fields: what lies behind its own is not looked at.
TEST(Init, TakesTheConfigOfAnOlderProgram) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  hktConfig_t config = quick_config();
  config.size = offsetof(hktConfig_t, determinism);
  config.determinism = 77;
  config.reserved = 77;
  hktComm_t comm = nullptr;
  ASSERT_EQ(hktCommInitRank(&comm, 1, id, 0, &config), hktSuccess) << hktGetLastError();
  EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
}

TEST(Init, RefusesABadConfig) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  const auto refused = [&](const hktConfig_t& config, const std::vector<std::string>& words) {
    hktComm_t comm = nullptr;
    expect_failure(hktCommInitRank(&comm, 1, id, 0, &config), hktInvalidArgument, words);
    EXPECT_EQ(comm, nullptr);
  };
  hktConfig_t config = quick_config();
  config.magic = 0;
  refused(config, {"hktCommInitRank", "config", "HKT_CONFIG_INITIALIZER"});
  config = quick_config();
  config.size = offsetof(hktConfig_t, determinism) - 8;
  refused(config, {"hktCommInitRank", "config", "HKT_CONFIG_INITIALIZER"});
  config = quick_config();
  config.version = HKT_VERSION(HKT_MAJOR + 1, 0, 0);
  refused(config, {"hktCommInitRank", "config.version", std::to_string(config.version)});
  config = quick_config();
  config.determinism = 5;
  refused(config, {"hktCommInitRank", "config.determinism is 5", "HKT_DETERMINISM_R1"});
  config = quick_config();
  config.reserved = 1;
  refused(config, {"hktCommInitRank", "config.reserved is 1"});
  config = quick_config();
  config.transport = "pigeon";
  refused(config, {"transport", "'pigeon'", "auto, shm, tcp"});
}

TEST(Init, NamesTheRanksThatDoNotCome) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  hktConfig_t config = quick_config();
  config.init_timeout_ms = 200;
  hktComm_t comm = nullptr;
  expect_failure(hktCommInitRank(&comm, 2, id, 0, &config), hktTimeout, {"rank 1"});
  EXPECT_EQ(comm, nullptr);
}

TEST(Comm, RefusesNullAndDestroyedHandles) {
  hktComm_t destroyed = nullptr;
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  ASSERT_EQ(hktCommInitRank(&destroyed, 1, id, 0, nullptr), hktSuccess) << hktGetLastError();
  ASSERT_EQ(hktCommDestroy(destroyed), hktSuccess);
  struct Handle {
    hktComm_t comm;
    const char* word;
  };
  for (const Handle& h : {Handle{nullptr, "comm is null"}, Handle{destroyed, "comm has been destroyed"}}) {
    int number = 0;
    hktResult_t async = hktSuccess;
    float x = 0;
    expect_failure(hktCommRank(h.comm, &number), hktInvalidArgument, {"hktCommRank", h.word});
    expect_failure(hktCommCount(h.comm, &number), hktInvalidArgument, {"hktCommCount", h.word});
    expect_failure(hktCommGetAsyncError(h.comm, &async), hktInvalidArgument, {"hktCommGetAsyncError", h.word});
    expect_failure(hktCommAbort(h.comm), hktInvalidArgument, {"hktCommAbort", h.word});
    expect_failure(hktCommDestroy(h.comm), hktInvalidArgument, {"hktCommDestroy", h.word});
    expect_failure(hktAllReduce(&x, &x, 1, hktFloat32, hktSum, h.comm, nullptr), hktInvalidArgument,
                   {"hktAllReduce", h.word});
    expect_failure(hktBroadcast(&x, &x, 1, hktFloat32, 0, h.comm, nullptr), hktInvalidArgument,
                   {"hktBroadcast", h.word});
    expect_failure(hktBarrier(h.comm, nullptr), hktInvalidArgument, {"hktBarrier", h.word});
  }
}

// A refused call counts for nothing: the ranks go on together after each of these.
TEST(Collectives, RefuseBadArguments) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    std::array<float, 8> a{}, b{};
    int number = 0;
    EXPECT_EQ(hktCommRank(comm, &number), hktSuccess);
    EXPECT_EQ(number, rank);
    EXPECT_EQ(hktCommCount(comm, &number), hktSuccess);
    EXPECT_EQ(number, 2);
    expect_failure(hktCommRank(comm, nullptr), hktInvalidArgument, {"hktCommRank", "rank", "null"});
    expect_failure(hktCommCount(comm, nullptr), hktInvalidArgument, {"hktCommCount", "count", "null"});
    expect_failure(hktCommGetAsyncError(comm, nullptr), hktInvalidArgument, {"hktCommGetAsyncError", "async", "null"});

    const auto all_reduce = [&](const void* in, void* out, size_t count, hktDataType_t type, hktRedOp_t op) {
      return hktAllReduce(in, out, count, type, op, comm, nullptr);
    };
    expect_failure(all_reduce(nullptr, b.data(), 8, hktFloat32, hktSum), hktInvalidArgument,
                   {"hktAllReduce", "sendbuf", "null"});
    expect_failure(all_reduce(a.data(), nullptr, 8, hktFloat32, hktSum), hktInvalidArgument,
                   {"hktAllReduce", "recvbuf", "null"});
    expect_failure(all_reduce(a.data(), a.data() + 1, 7, hktFloat32, hktSum), hktInvalidArgument,
                   {"hktAllReduce", "sendbuf and recvbuf overlap by 24 bytes", "in place"});
    expect_failure(all_reduce(a.data() + 7, a.data(), 8, hktFloat32, hktSum), hktInvalidArgument,
                   {"overlap by 4 bytes"});
    for (const hktDataType_t type : kNoTypes)
      expect_failure(all_reduce(nullptr, nullptr, 0, type, hktSum), hktInvalidArgument,
                     {"hktAllReduce", "type is " + std::to_string(type)});
    for (const hktRedOp_t op : kNoOps)
      expect_failure(all_reduce(nullptr, nullptr, 0, hktInt8, op), hktInvalidArgument,
                     {"hktAllReduce", "op is " + std::to_string(op)});
    expect_failure(all_reduce(nullptr, nullptr, 0, hktComplex64, hktMax), hktInvalidArgument,
                   {"hktAllReduce", "max of complex64", "no order"});
    expect_failure(all_reduce(a.data(), b.data(), 8, hktFloat32, hktBitXor), hktInvalidArgument,
                   {"hktAllReduce", "bxor of float", "integers and bool only"});
    for (const size_t count : {SIZE_MAX, SIZE_MAX / 4 + 1, static_cast<size_t>(INT64_MAX) / 4 + 1})
      expect_failure(all_reduce(a.data(), b.data(), count, hktFloat32, hktSum), hktInvalidArgument,
                     {"hktAllReduce", "count " + std::to_string(count), "float", "overflows"});

    for (const int root : {-1, 2, INT32_MAX, INT32_MIN})
      expect_failure(hktBroadcast(a.data(), a.data(), 8, hktFloat32, root, comm, nullptr), hktInvalidArgument,
                     {"hktBroadcast", "root is " + std::to_string(root), "[0, 2)"});
    expect_failure(hktBroadcast(a.data(), nullptr, 8, hktFloat32, 0, comm, nullptr), hktInvalidArgument,
                   {"hktBroadcast", "recvbuf", "null"});
    expect_failure(hktBroadcast(nullptr, b.data(), 8, hktFloat32, rank, comm, nullptr), hktInvalidArgument,
                   {"hktBroadcast", "sendbuf", "null"});
    expect_failure(hktBroadcast(a.data(), a.data() + 4, 8, hktFloat32, rank, comm, nullptr), hktInvalidArgument,
                   {"hktBroadcast", "overlap by 16 bytes"});
    for (const hktDataType_t type : kNoTypes)
      expect_failure(hktBroadcast(a.data(), a.data(), 1, type, 0, comm, nullptr), hktInvalidArgument,
                     {"hktBroadcast", "type is"});

    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
    a.fill(static_cast<float>(rank + 1));
    EXPECT_EQ(all_reduce(a.data(), b.data(), 8, hktFloat32, hktSum), hktSuccess) << hktGetLastError();
    for (const float v : b) EXPECT_EQ(v, 3.0f);
  });
}

TEST(Collectives, RefuseBadOptions) {
  with_ranks(2, [](hktComm_t comm, int) {
    const auto refused = [&](const hktCallOptions_t& options, hktResult_t code, const std::vector<std::string>& words) {
      float x = 0;
      const auto with = [&](const char* function) {
        std::vector<std::string> all = words;
        all.emplace_back(function);
        return all;
      };
      expect_failure(hktAllReduce(&x, &x, 1, hktFloat32, hktSum, comm, &options), code, with("hktAllReduce"));
      expect_failure(hktBroadcast(&x, &x, 1, hktFloat32, 0, comm, &options), code, with("hktBroadcast"));
      expect_failure(hktBarrier(comm, &options), code, with("hktBarrier"));
    };
    const hktCallOptions_t good = HKT_CALL_OPTIONS_INITIALIZER;
    refused(hktCallOptions_t{}, hktInvalidArgument, {"options", "HKT_CALL_OPTIONS_INITIALIZER"});
    hktCallOptions_t options = good;
    options.size = sizeof options - 1;
    refused(options, hktInvalidArgument, {"options", "HKT_CALL_OPTIONS_INITIALIZER"});
    options = good;
    options.version = HKT_VERSION(HKT_MAJOR + 1, 0, 0);
    refused(options, hktInvalidArgument, {"options"});
    options = good;
    options.reserved = 1;
    refused(options, hktInvalidArgument, {"options"});
    options = good;
    options.stream = nullptr;  // CUDA's default stream
    refused(options, hktInvalidUsage, {"options.stream", "HKT_STREAM_HOST"});

    options = good;
    options.timeout_ms = 10'000;
    options.label = "step 7";
    int64_t x = 21;
    EXPECT_EQ(hktAllReduce(&x, &x, 1, hktInt64, hktSum, comm, &options), hktSuccess) << hktGetLastError();
    EXPECT_EQ(x, 42);
  });
}

TEST(Collectives, TakeNothingFromNullBuffers) {
  with_ranks(3, [](hktComm_t comm, int) {
    for (const hktRedOp_t op : {hktSum, hktAvg, hktMin})
      EXPECT_EQ(hktAllReduce(nullptr, nullptr, 0, hktFloat16, op, comm, nullptr), hktSuccess) << hktGetLastError();
    for (int root = 0; root < 3; ++root)
      EXPECT_EQ(hktBroadcast(nullptr, nullptr, 0, hktInt8, root, comm, nullptr), hktSuccess) << hktGetLastError();
    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
  });
}

TEST(Collectives, BroadcastReadsSendbufOnTheRootOnly) {
  with_ranks(3, [](hktComm_t comm, int rank) {
    for (int root = 0; root < 3; ++root) {
      std::vector<int32_t> in(1000, 100 + root), out(1000, -1);
      EXPECT_EQ(hktBroadcast(rank == root ? in.data() : nullptr, out.data(), 1000, hktInt32, root, comm, nullptr),
                hktSuccess)
          << hktGetLastError();
      EXPECT_EQ(out, in);
    }
  });
}

TEST(Comm, IsUnusableInAForkedChildOnly) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    if (rank == 0) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        int32_t x = 1;
        hktResult_t async = hktSuccess;
        const bool refused =
            hktAllReduce(&x, &x, 1, hktInt32, hktSum, comm, nullptr) == hktInvalidUsage &&
            std::strstr(hktGetLastError(), "fork") != nullptr && hktBarrier(comm, nullptr) == hktInvalidUsage &&
            hktBroadcast(&x, &x, 1, hktInt32, 0, comm, nullptr) == hktInvalidUsage &&
            hktCommGetAsyncError(comm, &async) == hktInvalidUsage && hktCommAbort(comm) == hktInvalidUsage;
        const bool destroyed = hktCommDestroy(comm) == hktSuccess;
        _exit((refused ? 0 : 1) + (destroyed ? 0 : 2));
      }
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 0) << "1: a call was not refused, 2: destroying failed";
    }
    std::vector<int32_t> data(100'000, rank + 1);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
    EXPECT_EQ(hktAllReduce(data.data(), data.data(), data.size(), hktInt32, hktSum, comm, nullptr), hktSuccess)
        << hktGetLastError();
    EXPECT_EQ(data, std::vector<int32_t>(100'000, 3));
  });
}

TEST(Comm, RefusesASecondThread) {
  std::atomic<bool> one_was_refused{false};
  with_ranks(2, [&](hktComm_t comm, int rank) {
    if (rank == 1) {
      // One of the threads of rank 0 stays in its call until this rank comes.
      while (!one_was_refused) std::this_thread::yield();
      EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
      EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
      return;
    }
    std::atomic<int> good{0}, refused{0};
    const auto call = [&] {
      const hktResult_t result = hktBarrier(comm, nullptr);
      if (result == hktSuccess) {
        ++good;
      } else {
        expect_failure(result, hktInvalidUsage, {"two threads"});
        ++refused;
        one_was_refused = true;
      }
    };
    std::thread first(call), second(call);
    first.join();
    second.join();
    EXPECT_EQ(good, 1);
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << "the refused call did harm: " << hktGetLastError();
  });
}

// What a watchdog does: looking for errors all the time must not get in the way of calls.
TEST(Comm, LetsAnotherThreadLookForErrors) {
  with_ranks(2, [](hktComm_t comm, int) {
    std::atomic<bool> done{false};
    std::thread watchdog([&] {
      while (!done) {
        hktResult_t async = hktInternalError;
        EXPECT_EQ(hktCommGetAsyncError(comm, &async), hktSuccess);
        EXPECT_EQ(async, hktSuccess);
      }
    });
    for (int i = 0; i < 2000; ++i) EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
    done = true;
    watchdog.join();
  });
}

TEST(Comm, AbortEndsTheCallsOfAllRanks) {
  std::atomic<int> calling{0};
  with_ranks(3, [&](hktComm_t comm, int rank) {
    hktResult_t async = hktInternalError;
    EXPECT_EQ(hktCommGetAsyncError(comm, &async), hktSuccess);
    EXPECT_EQ(async, hktSuccess);
    ASSERT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
    std::thread other;
    if (rank == 0) {
      // Rank 2 never calls: the others wait until this thread aborts.
      other = std::thread([&] {
        while (calling < 2) std::this_thread::yield();
        EXPECT_EQ(hktCommAbort(comm), hktSuccess);
      });
    }
    if (rank < 2) {
      ++calling;
      expect_failure(hktBarrier(comm, nullptr), hktAborted, {"rank 0 called hktCommAbort"});
      expect_failure(hktBarrier(comm, nullptr), hktAborted, {"rank 0 called hktCommAbort", "before this call"});
    } else {
      while (hktCommGetAsyncError(comm, &async) == hktSuccess && async == hktSuccess) std::this_thread::yield();
    }
    if (other.joinable()) other.join();
    EXPECT_EQ(hktCommGetAsyncError(comm, &async), hktSuccess);
    EXPECT_EQ(async, hktAborted) << hktGetErrorString(async);
  });
}

// A store of the caller's in the memory of this process.
class MapStore {
 public:
  hktStore_t callbacks() {
    return {sizeof(hktStore_t), this,
            [](void* ctx, const char* key, const void* value, size_t size) { return self(ctx).put(key, value, size); },
            [](void* ctx, const char* key, void* value, size_t* size) { return self(ctx).get(key, value, size); },
            [](void* ctx, const char* key, int64_t timeout_ms) { return self(ctx).wait(key, timeout_ms); }};
  }
  size_t size() const { return map_.size(); }

 private:
  static MapStore& self(void* ctx) { return *static_cast<MapStore*>(ctx); }
  int put(const char* key, const void* value, size_t size) {
    const std::lock_guard lock(mutex_);
    const bool fresh = map_.emplace(key, std::string(static_cast<const char*>(value), size)).second;
    changed_.notify_all();
    return fresh ? 0 : 1;
  }
  int get(const char* key, void* value, size_t* size) {
    const std::lock_guard lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return 1;
    std::memcpy(value, found->second.data(), std::min(*size, found->second.size()));
    *size = found->second.size();
    return 0;
  }
  int wait(const char* key, int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return map_.count(key) != 0; }) ? 0 : 1;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> map_;
};

TEST(Store, BringsRanksTogether) {
  MapStore map;
  const hktStore_t store = map.callbacks();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const hktConfig_t config = quick_config();
      hktComm_t comm = nullptr;
      ASSERT_EQ(hktCommInitStore(&comm, 4, rank, &store, &config), hktSuccess) << hktGetLastError();
      uint64_t x = uint64_t{1} << rank;
      EXPECT_EQ(hktAllReduce(&x, &x, 1, hktUint64, hktSum, comm, nullptr), hktSuccess) << hktGetLastError();
      EXPECT_EQ(x, 15u);
      EXPECT_EQ(hktCommDestroy(comm), hktSuccess);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(map.size(), 0u);
}

TEST(Store, AFailureOfTheStoreIsSaid) {
  MapStore map;
  hktStore_t store = map.callbacks();
  store.put = [](void*, const char*, const void*, size_t) { return 42; };
  const hktConfig_t config = quick_config();
  hktComm_t comm = nullptr;
  expect_failure(hktCommInitStore(&comm, 2, 0, &store, &config), hktSystemError, {"put", "42"});
  EXPECT_EQ(comm, nullptr);
}

TEST(Wrapper, ThreadsAsRanks) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Config config;
      config.init_timeout = std::chrono::seconds(20);
      config.timeout = std::chrono::seconds(20);
      Communicator first = Communicator::from_id(id, rank, 3, config);
      Communicator comm = std::move(first);
      EXPECT_EQ(comm.rank(), rank);
      EXPECT_EQ(comm.size(), 3);

      std::vector<double> data(1000);
      std::iota(data.begin(), data.end(), rank);
      comm.all_reduce(std::span(data), Op::sum);
      for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], 3 * static_cast<double>(i) + 3);

      const std::vector<int16_t> in(10, static_cast<int16_t>(rank + 5));
      std::vector<int16_t> out(10);
      comm.all_reduce(std::span(in), std::span(out), Op::max);
      EXPECT_EQ(out, std::vector<int16_t>(10, 7));

      std::array<uint8_t, 3> bytes{};
      if (rank == 2) bytes = {1, 2, 3};
      comm.broadcast(std::span(bytes), 2);
      EXPECT_EQ(bytes, (std::array<uint8_t, 3>{1, 2, 3}));
      comm.barrier();
      EXPECT_EQ(comm.async_error(), hktSuccess);

      std::vector<int16_t> shorter(9);
      try {
        comm.all_reduce(std::span(in), std::span(shorter), Op::max);
        ADD_FAILURE() << "lengths that differ were taken";
      } catch (const Failure& f) {
        EXPECT_EQ(f.code(), hktInvalidArgument);
        EXPECT_NE(std::string(f.what()).find("in has 10 elements, out 9"), std::string::npos) << f.what();
      }
      try {
        comm.broadcast(std::span(bytes), 3);
        ADD_FAILURE() << "root 3 of 3 was taken";
      } catch (const Failure& f) {
        EXPECT_EQ(f.code(), hktInvalidArgument);
        EXPECT_NE(std::string(f.what()).find("root is 3"), std::string::npos) << f.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Wrapper, ThrowsWhenBringUpFails) {
  Config config;
  config.transport = "pigeon";
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  try {
    (void)Communicator::from_id(id, 0, 1, config);
    FAIL() << "an unknown transport was taken";
  } catch (const Failure& f) {
    EXPECT_EQ(f.code(), hktInvalidArgument);
    EXPECT_NE(std::string(f.what()).find("pigeon"), std::string::npos) << f.what();
  }
  EXPECT_THROW((void)Communicator::from_url("nowhere"), Failure);
}

TEST(Wrapper, TypesOfCpp) {
  EXPECT_EQ(type_of<signed char>(), hktInt8);
  EXPECT_EQ(type_of<uint8_t>(), hktUint8);
  EXPECT_EQ(type_of<int16_t>(), hktInt16);
  EXPECT_EQ(type_of<uint16_t>(), hktUint16);
  EXPECT_EQ(type_of<int32_t>(), hktInt32);
  EXPECT_EQ(type_of<uint32_t>(), hktUint32);
  EXPECT_EQ(type_of<long long>(), hktInt64);
  EXPECT_EQ(type_of<uint64_t>(), hktUint64);
  EXPECT_EQ(type_of<float>(), hktFloat32);
  EXPECT_EQ(type_of<double>(), hktFloat64);
  EXPECT_EQ(type_of<bool>(), hktBool);
  EXPECT_EQ(type_of<std::complex<float>>(), hktComplex64);
  EXPECT_EQ(type_of<std::complex<double>>(), hktComplex128);
}

}  // namespace
}  // namespace hocket::test
