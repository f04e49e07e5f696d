// The progress thread: moves what is outstanding on communicators while their owners compute (HOCKET_PROGRESS=thread).
// One per process. It is a visitor of gates like any other: it goes where nobody is in a call, and a call that comes
// waits until it has left. It sleeps as long as nothing is outstanding.
#pragma once

#include <memory>

#include "base/result.h"
#include "comm/busy.h"

namespace hocket::progress {

// Starts the thread unless it runs already; any thread. It ends with the process's static objects, before those that
// had been made when it was started. A forked child has none until it starts one.
Status start();

// By whoever has entered the gate and is about to leave it with something outstanding. Nothing happens if there is no
// thread: not started, forked, or the process ends.
void attend(const std::shared_ptr<Gate>& gate);

}  // namespace hocket::progress
