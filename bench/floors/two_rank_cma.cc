// All-reduce of two ranks with private buffers, each reading the other's memory with process_vm_readv: no staging copy,
// a system call a tile.
//   one shot: each adds the other's whole input to its own, a tile at a time;
//   two shot: each adds up one half and the other reads the result from its output.
#include <unistd.h>

#include <string>

#include "cma.h"
#include "kernels.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kTiles[] = {64 * kKiB, 256 * kKiB, 1024 * kKiB};

struct alignas(128) Desk {     // one rank's, written by it alone
  std::atomic<uint32_t> call;  // the call that the addresses belong to
  pid_t pid;
  const float* in;
  float* out;
  Flag ready;  // result tiles finished, over all calls
  Flag left;   // calls in which this rank has finished reading the other's memory
};

class Cma : public Scheme {
 public:
  Cma(Team& team, Desk* desks, bool halves, size_t tile, Store output)
      : Scheme(std::string(halves ? "two" : "one") + " shot by process_vm_readv, tiles of " +
                   std::to_string(tile / kKiB) + " KiB" + (output == kPast ? ", output past the cache" : ""),
               std::max(tile, 64 * kKiB), SIZE_MAX),
        team_(team),
        mine_(desks[team.rank]),
        theirs_(desks[1 - team.rank]),
        halves_(halves),
        tile_(tile / sizeof(float)),
        output_(output),
        scratch_(nullptr, std::free) {
    void* block = nullptr;
    if (posix_memalign(&block, kLine, tile) != 0) std::abort();
    scratch_.reset(static_cast<float*>(block));
  }

  bool run(const float* in, float* out, size_t count) override {
    const uint32_t call = mine_.call.load(std::memory_order_relaxed) + 1;
    const uint32_t ready = mine_.ready.value.load(std::memory_order_relaxed);
    mine_.pid = getpid();
    mine_.in = in;
    mine_.out = out;
    mine_.call.store(call, std::memory_order_release);
    wait_for(theirs_.call, call, team_.crowded);
    if (!(halves_ ? two_shot(in, out, count, ready) : one_shot(in, out, count))) return false;
    mine_.left.value.store(call, std::memory_order_release);
    wait_for(theirs_.left.value, call, team_.crowded);  // the caller may change the buffers after this
    return true;
  }

 private:
  bool one_shot(const float* in, float* out, size_t count) {
    for (size_t at = 0; at < count; at += tile_) {
      if (!add_tile(in, out, at, std::min(tile_, count - at))) return false;
    }
    return true;
  }

  // Both halves have as many tiles (the last ones differ), so that `ready` counts alike on both ranks.
  bool two_shot(const float* in, float* out, size_t count, uint32_t ready) {
    const size_t half = count / 2 / 16 * 16;
    const size_t begin[2] = {0, half}, end[2] = {half, count};
    const size_t tiles = (count - half + tile_ - 1) / tile_;
    const int peer = 1 - team_.rank;
    for (size_t t = 0; t < tiles; t++) {
      const size_t at = begin[team_.rank] + t * tile_;
      if (at < end[team_.rank] && !add_tile(in, out, at, std::min(tile_, end[team_.rank] - at))) return false;
      if (output_ == kPast) kernels().fence();
      mine_.ready.value.store(ready + static_cast<uint32_t>(t) + 1, std::memory_order_release);
      const size_t from = begin[peer] + t * tile_;
      if (from >= end[peer]) continue;
      wait_for(theirs_.ready.value, ready + static_cast<uint32_t>(t) + 1, team_.crowded);
      if (!cma_read(theirs_.pid, out + from, theirs_.out + from, std::min(tile_, end[peer] - from))) return false;
    }
    return true;
  }

  bool add_tile(const float* in, float* out, size_t at, size_t count) {
    if (!cma_read(theirs_.pid, scratch_.get(), theirs_.in + at, count)) return false;
    kernels().add[output_](out + at, in + at, scratch_.get(), count);
    return true;
  }

  Team& team_;
  Desk& mine_;
  Desk& theirs_;
  bool halves_;
  size_t tile_;
  Store output_;
  std::unique_ptr<float, void (*)(void*)> scratch_;
};

}  // namespace

void add_two_rank_cma_schemes(Team& team, Schemes& all) {
  if (team.ranks != 2 || !cma_works(team)) return;
  Desk* desks = team.take<Desk>(2);
  for (const size_t tile : kTiles) {
    for (const bool halves : {false, true}) {
      for (const Store output : {kCached, kPast}) {
        all.push_back(std::make_unique<Cma>(team, desks, halves, tile, output));
      }
    }
  }
}

}  // namespace floors
