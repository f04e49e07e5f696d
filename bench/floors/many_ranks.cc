// All-reduce of any number of ranks, in phases with a meeting between them: everybody shows its input, each adds up one
// part of it, everybody collects the parts.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "cma.h"
#include "kernels.h"
#include "meeting.h"
#include "scheme.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMaxTile = 4096 * kKiB;
constexpr size_t kScratch = 64 * kKiB / sizeof(float);  // floats read from one rank at a time
constexpr int kMaxRanks = 64;

// The part of `count` floats that a rank adds up.
struct Part {
  Part(size_t count, int rank, int ranks) {
    const size_t each = (count / static_cast<size_t>(ranks) + 15) / 16 * 16;
    first = std::min(count, each * static_cast<size_t>(rank));
    size = (rank == ranks - 1 ? count : std::min(count, first + each)) - first;
  }
  size_t first;
  size_t size;
};

// Staged: inputs are copied to shared memory a tile at a time, results too. Two meetings a tile. The places of a tile
// are used again two tiles later, when every rank has left the tile.
class Staged : public Scheme {
 public:
  struct Places {
    float* inputs;   // two of kMaxTile bytes for every rank
    float* results;  // two of kMaxTile bytes
    Store how;       // both are written
  };

  Staged(Team& team, Meeting& meeting, const Places& places, size_t tile)
      : Scheme("phases, tiles of " + std::to_string(tile / kKiB) + " KiB" +
                   (places.how == kPast ? ", past the cache" : ""),
               4 * kKiB, SIZE_MAX),
        team_(team),
        meeting_(meeting),
        places_(places),
        tile_(tile / sizeof(float)) {}

  bool run(const float* in, float* out, size_t count) override {
    for (size_t at = 0, t = 0; at < count; at += tile_, t++) {
      run_tile(in + at, out + at, std::min(tile_, count - at), t % 2);
    }
    return true;
  }

 private:
  float* input_of(int rank, size_t parity) const {
    return places_.inputs + (static_cast<size_t>(rank) * 2 + parity) * (kMaxTile / sizeof(float));
  }

  void run_tile(const float* in, float* out, size_t count, size_t parity) {
    const Part mine(count, team_.rank, team_.ranks);
    float* shown = input_of(team_.rank, parity);
    float* results = places_.results + parity * (kMaxTile / sizeof(float));
    const size_t after = mine.first + mine.size;
    copy(shown, in, mine.first, places_.how);
    copy(shown + after, in + after, count - after, places_.how);
    meeting_.meet();
    const float* operands[kMaxRanks];
    for (int r = 0; r < team_.ranks; r++) {
      operands[r] = (r == team_.rank ? in : input_of(r, parity)) + mine.first;
    }
    kernels().sum[places_.how](results + mine.first, operands, team_.ranks, mine.size);
    if (places_.how == kPast) kernels().fence();
    meeting_.meet();
    copy(out, results, count, kCached);
  }

  Team& team_;
  Meeting& meeting_;
  Places places_;
  size_t tile_;
};

struct alignas(128) Desk {
  pid_t pid;
  const float* in;
  float* out;
};

// Every rank reads the others' memory directly. Three meetings, whatever the size.
class Cma : public Scheme {
 public:
  Cma(Team& team, Meeting& meeting, Desk* desks)
      : Scheme("phases by process_vm_readv", 16 * kKiB, SIZE_MAX),
        team_(team),
        meeting_(meeting),
        desks_(desks),
        scratch_(kScratch * static_cast<size_t>(team.ranks)) {}

  bool run(const float* in, float* out, size_t count) override {
    desks_[team_.rank] = Desk{getpid(), in, out};
    meeting_.meet();
    const Part mine(count, team_.rank, team_.ranks);
    for (size_t at = 0; at < mine.size; at += kScratch) {
      if (!add_up(in, out, mine.first + at, std::min(kScratch, mine.size - at))) return false;
    }
    meeting_.meet();
    for (int r = 0; r < team_.ranks; r++) {
      const Part part(count, r, team_.ranks);
      if (r == team_.rank || part.size == 0) continue;
      if (!cma_read(desks_[r].pid, out + part.first, desks_[r].out + part.first, part.size)) return false;
    }
    meeting_.meet();
    return true;
  }

 private:
  bool add_up(const float* in, float* out, size_t at, size_t count) {
    const float* operands[kMaxRanks];
    for (int r = 0; r < team_.ranks; r++) {
      float* copied = scratch_.data() + kScratch * static_cast<size_t>(r);
      operands[r] = r == team_.rank ? in + at : copied;
      if (r != team_.rank && !cma_read(desks_[r].pid, copied, desks_[r].in + at, count)) return false;
    }
    kernels().sum[kCached](out + at, operands, team_.ranks, count);
    return true;
  }

  Team& team_;
  Meeting& meeting_;
  Desk* desks_;
  std::vector<float> scratch_;
};

}  // namespace

void add_many_rank_schemes(Team& team, Schemes& all, Meeting& meeting) {
  if (team.ranks < 3 || team.ranks > kMaxRanks) return;
  constexpr size_t kFloats = kMaxTile / sizeof(float);
  float* inputs = team.take<float>(2 * kFloats * static_cast<size_t>(team.ranks));
  float* results = team.take<float>(2 * kFloats);
  for (const size_t tile : {64 * kKiB, 256 * kKiB, 1024 * kKiB, kMaxTile}) {
    for (const Store how : {kCached, kPast}) {
      all.push_back(std::make_unique<Staged>(team, meeting, Staged::Places{inputs, results, how}, tile));
    }
  }
  if (!cma_works(team)) return;
  all.push_back(std::make_unique<Cma>(team, meeting, team.take<Desk>(static_cast<size_t>(team.ranks))));
}

}  // namespace floors
