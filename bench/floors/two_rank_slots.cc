// All-reduce of two ranks with private buffers, staged through rings of slots.
//   one shot: each sends its whole input and adds the other's to its own;
//   two shot: each adds up one half and sends back the result.
// Both move as much between the processes; two-shot adds half as much and copies more.
#include <string>

#include "kernels.h"
#include "ring.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;

struct Tuning {
  SlotShape shape;
  Store slots;   // how slots are written
  Store output;  // how the output is
};

std::string name_of(const char* scheme, const Tuning& t) {
  return std::string(scheme) + ", slots " + std::to_string(t.shape.depth) + " x " +
         std::to_string(t.shape.bytes / kKiB) + " KiB" + (t.slots == kPast ? ", slots past the cache" : "") +
         (t.output == kPast ? ", output past the cache" : "");
}

// Walks the tiles of `count` floats.
struct Tiles {
  size_t count;
  size_t tile;

  size_t number() const { return (count + tile - 1) / tile; }
  size_t first(size_t t) const { return t * tile; }
  size_t size(size_t t) const { return std::min(tile, count - first(t)); }
};

// The rings of one phase, one each way.
struct Rings {
  RingMemory* to[2];  // to[r]: read by rank r

  RingWriter writer(const Team& team, SlotShape shape) const { return {to[1 - team.rank], shape, team.crowded}; }
  RingReader reader(const Team& team, SlotShape shape) const { return {to[team.rank], shape, team.crowded}; }
};

class OneShot : public Scheme {
 public:
  OneShot(Team& team, const Rings& rings, const Tuning& t)
      : Scheme(name_of("one shot", t), 2 * kKiB, t.output == kPast ? SIZE_MAX : 16 * kKiB * kKiB),
        t_(t),
        tx_(rings.writer(team, t.shape)),
        rx_(rings.reader(team, t.shape)) {}

  bool run(const float* in, float* out, size_t count) override {
    const Tiles tiles{count, t_.shape.bytes / sizeof(float)};
    tx_.resume();
    rx_.resume();
    for (size_t t = 0; t <= tiles.number(); t++) {  // sends tile t, receives tile t - 1
      if (t < tiles.number()) {
        copy(tx_.begin(), in + tiles.first(t), tiles.size(t), t_.slots);
        tx_.end();
      }
      if (t == 0) continue;
      const size_t at = tiles.first(t - 1);
      kernels().add[t_.output](out + at, in + at, rx_.begin(), tiles.size(t - 1));
      rx_.end();
    }
    return true;
  }

 private:
  Tuning t_;
  RingWriter tx_;
  RingReader rx_;
};

class TwoShot : public Scheme {
 public:
  TwoShot(Team& team, const Rings& inputs, const Rings& results, const Tuning& t)
      : Scheme(name_of("two shot", t), 16 * kKiB, SIZE_MAX),
        rank_(team.rank),
        t_(t),
        input_tx_(inputs.writer(team, t.shape)),
        input_rx_(inputs.reader(team, t.shape)),
        result_tx_(results.writer(team, t.shape)),
        result_rx_(results.reader(team, t.shape)) {}

  bool run(const float* in, float* out, size_t count) override {
    const size_t half = count / 2 / 16 * 16;  // rank 0 adds up [0, half), rank 1 the rest
    const size_t mine = rank_ == 0 ? 0 : half;
    const size_t theirs = half - mine;
    const Tiles add{rank_ == 0 ? half : count - half, t_.shape.bytes / sizeof(float)};
    const Tiles send{count - add.count, add.tile};
    input_tx_.resume();
    input_rx_.resume();
    result_tx_.resume();
    result_rx_.resume();
    // Step t sends input tile t, adds up tile t - 1 and takes result tile t - 2.
    for (size_t t = 0; t < std::max(add.number(), send.number()) + 2; t++) {
      if (t < send.number()) {
        copy(input_tx_.begin(), in + theirs + send.first(t), send.size(t), t_.slots);
        input_tx_.end();
      }
      if (t >= 1 && t - 1 < add.number()) add_up(in + mine, out + mine, add, t - 1);
      if (t >= 2 && t - 2 < send.number()) {
        copy(out + theirs + send.first(t - 2), result_rx_.begin(), send.size(t - 2), t_.output);
        result_rx_.end();
      }
    }
    return true;
  }

 private:
  void add_up(const float* in, float* out, const Tiles& tiles, size_t t) {
    const size_t at = tiles.first(t);
    float* slot = result_tx_.begin();
    kernels().add_twice[t_.output][t_.slots](out + at, slot, in + at, input_rx_.begin(), tiles.size(t));
    if (t_.slots == kPast) kernels().fence();
    result_tx_.end();
    input_rx_.end();
  }

  int rank_;
  Tuning t_;
  RingWriter input_tx_;
  RingReader input_rx_;
  RingWriter result_tx_;
  RingReader result_rx_;
};

}  // namespace

void add_two_rank_slot_schemes(Team& team, Schemes& all) {
  if (team.ranks != 2) return;
  const Rings inputs{{team.take<RingMemory>(), team.take<RingMemory>()}};
  const Rings results{{team.take<RingMemory>(), team.take<RingMemory>()}};
  for (const SlotShape shape :
       {SlotShape{4 * kKiB, 8}, SlotShape{16 * kKiB, 8}, SlotShape{64 * kKiB, 4}, SlotShape{256 * kKiB, 4}}) {
    for (const Store slots : {kCached, kPast}) {
      for (const Store output : {kCached, kPast}) {
        all.push_back(std::make_unique<OneShot>(team, inputs, Tuning{shape, slots, output}));
        all.push_back(std::make_unique<TwoShot>(team, inputs, results, Tuning{shape, slots, output}));
      }
    }
  }
}

}  // namespace floors
