// All-reduce of buffers that every rank can reach: all meet, each adds up its part of all inputs and writes it to all
// outputs, all meet again. Every input is read once and every output written once: no scheme moves less.
#include <algorithm>
#include <string>

#include "arena.h"
#include "kernels.h"
#include "meeting.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kTile = 2048;  // floats: what is added up before it is written to several places
constexpr int kMaxRanks = 64;

class Fused : public Scheme {
 public:
  Fused(Team& team, Meeting& meeting, const Arena& arena, Store how)
      : Scheme(std::string("two meetings around one pass") + (how == kPast ? ", past the cache" : ""), 64, SIZE_MAX),
        team_(team),
        meeting_(meeting),
        arena_(arena),
        how_(how) {}

  bool run(const float* in, float* out, size_t count) override {
    const size_t each = (count / static_cast<size_t>(team_.ranks) + 15) / 16 * 16;
    const size_t first = std::min(count, each * static_cast<size_t>(team_.rank));
    const size_t last = team_.rank == team_.ranks - 1 ? count : std::min(count, first + each);
    for (int r = 0; r < team_.ranks; r++) {
      inputs_[r] = arena_.of(r, in);
      outputs_[r] = arena_.of(r, out);
    }
    meeting_.meet();
    if (team_.ranks == 2) {
      kernels().add_twice[how_][how_](outputs_[0] + first, outputs_[1] + first, inputs_[0] + first, inputs_[1] + first,
                                      last - first);
    } else {
      for (size_t at = first; at < last; at += kTile) add_up(at, std::min(kTile, last - at));
    }
    if (how_ == kPast) kernels().fence();
    meeting_.meet();
    return true;
  }

 private:
  void add_up(size_t at, size_t count) {
    const float* operands[kMaxRanks];
    for (int r = 0; r < team_.ranks; r++) operands[r] = inputs_[r] + at;
    kernels().sum[kCached](tile_, operands, team_.ranks, count);
    for (int r = 0; r < team_.ranks; r++) copy(outputs_[r] + at, tile_, count, how_);
  }

  Team& team_;
  Meeting& meeting_;
  const Arena& arena_;
  Store how_;
  const float* inputs_[kMaxRanks];
  float* outputs_[kMaxRanks];
  alignas(64) float tile_[kTile];
};

}  // namespace

void add_registered_schemes(Team& team, Schemes& all, Meeting& meeting, const Arena& arena) {
  if (team.ranks < 2 || team.ranks > kMaxRanks) return;
  for (const Store how : {kCached, kPast}) all.push_back(std::make_unique<Fused>(team, meeting, arena, how));
}

}  // namespace floors
