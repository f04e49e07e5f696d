// Determinism R4: sums of floats as stages. Per piece of the data, the ranks take the maximum of their elements' codes,
// add up the integers that follow from it, and round (kernels/reproducible.h); of large pieces of an all-reduce each
// rank rounds a share. Maxima and sums of integers are the same in any order, so every planner will do, and an
// element's result hangs on nothing but the ranks' elements.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/stages.h"
#include "kernels/reproducible.h"

namespace hocket {

class Communicator;

// Whether a call needs these stages on a communicator with determinism R4: it sums floats.
bool sums_floats(const CallRecord& record);
// Why a call cannot be made on a communicator with determinism R4.
Status check_reproducible(const CallRecord& record);

class ReproducibleSums final : public Stages {
 public:
  // Of this rank of n; `call` is an order of a call that sums_floats(): an all-reduce, reduce or reduce-scatter. The
  // vector of the first two follows in parts, if only one.
  void begin(const Order& call, uint32_t rank, uint32_t n);
  void append(const void* in, void* out, uint64_t elems);
  // There are no more. An error is the call's: there are no plans for its runs.
  Status ready(Communicator& comm);

  bool next(Order& run, Staging& staging) override;

 private:
  enum class Stage : uint8_t { codes, sums, results, copies };
  // What is in one place in memory: a part of the vector or of a piece, a block of a piece. Lengths are in floats.
  struct Part {
    const unsigned char* in;
    unsigned char* out;  // null: this rank does not get it
    uint64_t at;         // in the piece
    uint64_t floats;
  };

  bool blocks() const { return !counts_.empty(); }
  // Whether a large piece of an all-reduce is cut into shares: each rank gets the sums of its share and rounds them,
  // and the results are gathered. Fewer bytes travel, and each sum is rounded by one rank only.
  bool shared() const;
  void share();
  void lay_out();
  void add(const Part& whole, uint64_t first);
  void classify(Staging& staging);
  void quantise();
  // Of the parts, or of this rank's share.
  void round();
  void round_share();
  void copy_results();
  const unsigned char* operands(const Part& part) const {
    return call_.scale != nullptr ? scaled_ + part.at * kind_.float_size : part.in;
  }
  uint64_t code_bytes(uint64_t floats) const { return floats * (kind_.code_type == hktUint8 ? 1 : 2); }
  unsigned char* codes(uint64_t at) const { return codes_ + code_bytes(at); }
  Order codes_run(uint64_t floats) const;
  Order sums_run(bool by_table) const;
  Order results_run() const;

  kernels::ReproducibleSum kind_;
  CallRecord record_;  // of the whole call
  Call call_;          // the same; its tables are copied
  uint32_t rank_ = 0, n_ = 1;
  std::vector<uint64_t> counts_, displs_;  // floats: of each rank's block; empty: a vector
  std::vector<Part> vector_;               // else; what is empty is left out
  uint64_t floats_ = 0;                    // of the vector or of the largest block
  uint64_t step_ = 0;                      // a piece's share of them
  uint64_t capacity_ = 0;                  // floats of the largest piece, the first one

  Stage stage_ = Stage::codes;
  uint64_t at_ = 0;  // of the piece at hand: where in the vector or in each block it begins
  std::vector<Part> parts_;
  uint64_t piece_ = 0;       // floats
  size_t next_part_ = 0;     // of the vector: where the next piece begins
  uint64_t next_first_ = 0;  // in it
  // The tables of the runs: of blocks and shares in limbs, of shares in floats.
  std::vector<uint64_t> limbs_, limb_displs_, shares_, share_displs_;
  int64_t* sums_ = nullptr;  // staging memory, from here on
  unsigned char *codes_ = nullptr, *scaled_ = nullptr;
  unsigned char* results_ = nullptr;  // of a shared piece: its output, or staging memory, if it has several
};

}  // namespace hocket
