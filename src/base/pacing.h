// Pacing: congestion controls such as BBR send by timers, at the speed that they have measured. Between hosts that are
// far apart that is what the system's administrator wants. Between processes of a host or of a rack, where the way
// there and back takes less than a timer, their estimate is for some connections several times too low, for good.
#pragma once

namespace hocket {

// Of a TCP socket that is to connect or to listen: where the system's congestion control paces, one that does not is
// taken, as far as the system allows any. Pacing that has once begun is not undone by a later choice.
void do_not_pace(int fd);
// Of one that is connected: to the system's choice, if the other end is far (1 ms there and back).
void pace_if_far(int fd);

}  // namespace hocket
