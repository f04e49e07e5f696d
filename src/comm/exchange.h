// Exchange: bytes of each for all, among some ranks of a communicator, over a link of their own per pair
// (kExchangeTag): ceil(log2 n) rounds of messages of any length. What finalize and making a communicator from another
// one are built on.
//
// It is a call of the communicator like any other: one at a time, by its thread; if ranks do not agree, do not come or
// die, the communicator has failed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "comm/busy.h"
#include "comm/communicator.h"

namespace hocket {

class Exchange {
 public:
  // A call of all ranks, announced and compared like a collective. timeout_ms < 0: never.
  static Result<std::unique_ptr<Exchange>> of_all(Communicator& comm, Meeting meeting, int64_t timeout_ms);
  // A call of `members` only: ranks of `comm`, this one among them, in an order that all of them use. `seal` stands for
  // all that they must agree on, `what` is the call's name in errors.
  static Result<std::unique_ptr<Exchange>> of_some(Communicator& comm, std::vector<int> members, uint64_t seal,
                                                   const char* what, Deadline deadline);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // From now on among these alone, whom all of them name in this order; this rank is one of them.
  void narrow(std::vector<int> members);
  // Every member's bytes, in the members' order. When it returns, what this rank sent has left the process.
  Result<std::vector<std::string>> all_gather(const std::string& mine);
  // No call may come after this one, and whoever tries is told.
  void finalize_communicator();

 private:
  class Round;
  class OfSome;
  Exchange(Communicator& comm, std::unique_ptr<Supervisor> own);
  // What is outstanding on the communicator goes first: its collectives, or all of it.
  enum class After : uint8_t { collectives, all };
  Status admit(After after) const;
  Result<std::string> swap(size_t to, size_t from, const std::string& mine);

  Communicator& comm_;
  Busy busy_;
  std::unique_ptr<Supervisor> own_;  // of an exchange of some; else the communicator's watch serves
  Waiter waiter_;
  std::vector<int> members_;
  size_t me_ = 0;           // place in members_
  uint32_t seal_ = 0;       // in all signatures of this exchange
  uint32_t signature_ = 0;  // of the messages of this all_gather
  uint32_t stage_ = 0;      // all_gathers so far
};

}  // namespace hocket
