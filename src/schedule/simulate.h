// simulate: how long a plan takes on a model of the network. Every step happens at a time that follows from the times
// before it (max, plus), in the order that schedule/drive.h gives. Deterministic; pure; any thread.
//
// The model
// - Message: b bytes keep the sender's port busy for b * beta; alpha after the first byte left, the message begins to
//   keep the receiver's port busy for b * beta as well. So it takes alpha + b * beta if nobody is in the way.
// - Port: a rank has one out and one in. They serve messages in the order of their times, which makes incast visible.
// - Work: b * gamma for each operand that a step folds into the first, b * copy for a step that folds nothing and
//   stores. A rank does one step's work at a time. A push costs no work: the port does it.
// - Link: holds `depth` messages. The sender knows alpha after a pop that there is room again.
// - A rank is finished when all its lanes are.
//
// Memory: about 100 bytes per link and 150 per lane. Time: about a microsecond per message.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "schedule/plan.h"
#include "schedule/step_source.h"

namespace hocket {

// Values at [0] hold between ranks of one host, at [1] between hosts. None is negative.
struct NetworkModel {
  uint32_t group = 0;  // rank r is on host r / group; 0: all ranks are on one host
  std::array<double, 2> alpha_us{};
  std::array<double, 2> beta_us_per_byte{};
  double gamma_us_per_byte = 0;
  double copy_us_per_byte = 0;
};

struct SimCall {
  uint64_t bytes = 0;  // of the larger of the user's buffers; a multiple of elem_size, for n blocks of n * elem_size
  uint32_t elem_size = 4;              // a power of two <= 16
  uint64_t slot_bytes = 0;             // the most that one message carries; 0: everything in one round
  uint32_t depth = 8;                  // messages that a link holds; >= 1
  uint64_t max_steps = 1'000'000'000;  // of all ranks and rounds: more is an error, not a wait of hours
};

struct SimReport {
  double time_us = 0;             // of the slowest rank
  std::vector<double> finish_us;  // by rank
  uint32_t rounds = 0;
  std::array<uint64_t, 2> messages{}, bytes{};  // sent within and between hosts, all rounds
};

// `source` is a plan that validates. An error says which limit or value is in the way; a plan that comes to a
// standstill is one that names a waiting step.
Result<SimReport> simulate(const StepSource& source, const NetworkModel& network, const SimCall& call);
// The same for a plan as arrays, which is validated first.
Result<SimReport> simulate(const Plan& plan, const NetworkModel& network, const SimCall& call);

}  // namespace hocket
