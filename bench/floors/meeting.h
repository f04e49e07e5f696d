// A point where all ranks of a team meet.
#pragma once

#include "team.h"

namespace floors {

// Every rank raises its own flag and looks at those of all the others.
class Meeting {
 public:
  explicit Meeting(Team& team) : team_(team), flags_(team.take<Flag>(static_cast<size_t>(team.ranks))) {}

  void meet() {
    flags_[team_.rank].value.store(++met_, std::memory_order_release);
    for (int peer = 0; peer < team_.ranks; peer++) wait_for(flags_[peer].value, met_, team_.crowded);
  }

 private:
  Team& team_;
  Flag* flags_;
  uint32_t met_ = 0;
};

}  // namespace floors
