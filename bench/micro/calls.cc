// What a call costs beyond waiting and moving: one rank, whose plan is a copy, goes through the same checks, selection
// and engine as any other.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>

#include "hocket/hocket.h"
#include "instructions.h"
#include "parts.h"

namespace hocket::bench {
namespace {

// A communicator of one rank.
class One {
 public:
  One() {
    hktUniqueId id;
    if (hktGetUniqueId(&id) == hktSuccess) (void)hktCommInitRank(&comm_, 1, id, 0, nullptr);
  }
  ~One() {
    if (comm_ != nullptr) (void)hktCommDestroy(comm_);
  }
  One(const One&) = delete;
  One& operator=(const One&) = delete;
  hktComm_t get() const { return comm_; }

 private:
  hktComm_t comm_ = nullptr;
};

using Buffer = std::array<float, 2>;

template <class Call>
void add(const char* name, const Call& call) {
  benchmark::RegisterBenchmark(name, [call](benchmark::State& state) {
    const One one;
    Buffer in{1, 2}, out{};
    hktResult_t result = one.get() != nullptr ? call(one.get(), in, out) : hktSystemError;
    measure(state, [&] {
      const hktResult_t r = call(one.get(), in, out);
      if (r != hktSuccess) [[unlikely]]
        result = r;
      benchmark::ClobberMemory();
    });
    if (result != hktSuccess) state.SkipWithError(hktGetLastError());
  });
}

hktResult_t by_request(hktComm_t comm, Buffer& in, Buffer& out) {
  hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
  hktRequest_t request = nullptr;
  options.request = &request;
  if (const hktResult_t r = hktAllReduce(in.data(), out.data(), in.size(), hktFloat32, hktSum, comm, &options);
      r != hktSuccess)
    return r;
  return hktRequestWait(&request);
}

}  // namespace

void add_calls() {
  add("call/all_reduce/8", [](hktComm_t comm, Buffer& in, Buffer& out) {
    return hktAllReduce(in.data(), out.data(), in.size(), hktFloat32, hktSum, comm, nullptr);
  });
  add("call/all_reduce/8/in_place", [](hktComm_t comm, Buffer&, Buffer& out) {
    return hktAllReduce(out.data(), out.data(), out.size(), hktFloat32, hktSum, comm, nullptr);
  });
  add("call/all_gather/8", [](hktComm_t comm, Buffer& in, Buffer& out) {
    return hktAllGather(in.data(), out.data(), in.size(), hktFloat32, comm, nullptr);
  });
  add("call/broadcast/8", [](hktComm_t comm, Buffer& in, Buffer& out) {
    return hktBroadcast(in.data(), out.data(), in.size(), hktFloat32, 0, comm, nullptr);
  });
  add("call/barrier", [](hktComm_t comm, Buffer&, Buffer&) { return hktBarrier(comm, nullptr); });
  add("call/all_reduce/8/request", by_request);
}

}  // namespace hocket::bench
