// A scheme is one hand-written collective with fixed parameters and no generality: float32, sum, root 0, one way of
// moving the data. The floor of a case is the best of the schemes that fit it, measured at that size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "meeting.h"

namespace floors {

class Arena;
struct TcpMesh;
struct TcpPairs;

class Scheme {
 public:
  // Offered for buffers of `least` to `most` bytes.
  Scheme(std::string name, size_t least, size_t most) : name_(std::move(name)), least_(least), most_(most) {}
  virtual ~Scheme() = default;
  Scheme(const Scheme&) = delete;
  Scheme& operator=(const Scheme&) = delete;

  // Collective; every rank runs the same schemes in the same order. An all-reduce reads `in` and writes `out`; a
  // broadcast reads or writes `out`; a barrier uses neither. Buffers are 64-byte aligned. False: a system call failed,
  // said on stderr.
  virtual bool run(const float* in, float* out, size_t count) = 0;

  const std::string& name() const { return name_; }
  bool fits(size_t bytes) const { return bytes >= least_ && bytes <= most_; }

 private:
  std::string name_;
  size_t least_;
  size_t most_;
};

using Schemes = std::vector<std::unique_ptr<Scheme>>;

// Each appends its schemes, taking shared memory from the team; collective.
void add_message_schemes(Team& team, Schemes& all);        // all-reduce, a message whole in a slot, any ranks
void add_two_rank_slot_schemes(Team& team, Schemes& all);  // all-reduce of 2 ranks through rings of slots
void add_two_rank_cma_schemes(Team& team, Schemes& all);   // all-reduce of 2 ranks by process_vm_readv, if allowed
void add_many_rank_schemes(Team& team, Schemes& all, Meeting& meeting);  // all-reduce of more than 2 ranks, in phases
void add_registered_schemes(Team& team, Schemes& all, Meeting& meeting, const Arena& arena);  // all-reduce, any ranks
void add_broadcast_schemes(Team& team, Schemes& all);
void add_barrier_schemes(Team& team, Schemes& all, Meeting& meeting);
void add_tcp_schemes(int rank, const TcpPairs& pairs, Schemes& all);                // all-reduce of 2 ranks
void add_tcp_mesh_schemes(int rank, int ranks, const TcpMesh& mesh, Schemes& all);  // all-reduce of more

}  // namespace floors
