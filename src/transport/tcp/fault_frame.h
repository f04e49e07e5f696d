// The payload of a fault frame (Kind::fault), both ways.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace hocket::tcp {

// Writes at most kMaxControl bytes and returns how many; a longer text is cut.
size_t pack_fault(const Fault& fault, unsigned char* to);
// Of sizeof(FaultHead) to kMaxControl bytes from a peer; an error says what makes no sense among `nranks` ranks.
Result<Fault> unpack_fault(const unsigned char* payload, size_t bytes, int nranks);

}  // namespace hocket::tcp
