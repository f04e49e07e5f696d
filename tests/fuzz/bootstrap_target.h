// What the fuzzer and the tests do with bytes that a stranger may send during bring-up. The first one says who hears
// the rest:
//   s  the server of the TCP store, on a connection for each "HKTB" in it, all at once
//   c  its client, as replies to a few requests
//   p  both sides of a proof of the job's secret
//   v  a series of values
//   t  the client of torchrun's store
//   m  the client of a process manager that speaks PMI-1
#pragma once

#include <string_view>

namespace hocket {

// Ends the process if something is wrong that no bytes may bring about: a reply that is none, values that were not
// asked for, a wait that goes on after the other side has ended.
void try_bytes(std::string_view bytes);

}  // namespace hocket
