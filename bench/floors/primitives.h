// The machine's primitives, measured one by one: what the processes of a collective are made of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "peers/ranks.h"
#include "scheme.h"

namespace floors {

struct Row {
  std::string name;
  std::string unit;  // "us" (the less the better) or "GB/s"
  double p10 = 0;    // of the samples, sorted from good to bad
  double p50 = 0;
};

// The figures that a primitive leaves: one a batch, from one rank. In shared memory, zero-filled.
struct Samples {
  static constexpr int kMost = 4096;
  int count;
  double value[kMost];

  void add(double v) {
    if (count < kMost) value[count++] = v;
  }
};

// Runs primitives in processes of their own, one after the other, and collects the rows.
class Bench {
 public:
  Bench(const rk_pins& pins, double milliseconds) : pins_(pins), milliseconds_(milliseconds) {}

  // Forks `ranks` processes that each call `body`; false from any of them, or a death, ends all with an error.
  using Body = std::function<bool(Team& team, Samples* samples)>;
  bool run(const std::string& name, const std::string& unit, int ranks, const Body& body);

  // Calls batch(k) on every rank until the time is over; each batch is k operations. Rank 0 sizes batches to about
  // 0.3 ms (longer ones measure the scheduler of a shared machine) and adds value(seconds of one operation) for each.
  bool sample(Team& team, Samples* samples, const std::function<bool(int)>& batch,
              const std::function<double(double)>& value) const;

  const std::vector<Row>& rows() const { return rows_; }

 private:
  rk_pins pins_;
  double milliseconds_;
  std::vector<Row> rows_;
};

// Groups; each appends its rows to the bench. False: a process failed, said on stderr.
bool measure_exchange(Bench& bench);
bool measure_barriers(Bench& bench);
bool measure_memory(Bench& bench);
bool measure_slots(Bench& bench);
bool measure_cma(Bench& bench);
bool measure_tcp(Bench& bench);

}  // namespace floors
