// Transport: makes the two ends of links and tells when peers are gone. One object per communicator and kind; all calls
// from the communicator's thread unless said otherwise. Tiers: shm (same host, memory mapped by both), tcp (any),
// loopback (ranks as threads of one process, for tests: can drop, delay, reorder between links and break links on
// command).
//
// Limits as data: `geometry()` is what every ring of this transport has, equal on both ends.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transport/call_record.h"
#include "transport/link.h"
#include "transport/regions.h"

namespace hocket {

// Why a communicator cannot go on. Spread to all ranks; the first one wins.
struct Fault {
  Code code = hktSuccess;  // hktRemoteError, hktMismatch, hktTimeout, hktAborted, hktSystemError
  int32_t rank = -1;       // the rank that is to blame or that raised it, -1 unknown
  uint64_t call = 0;       // sequence number of the call it is about, 0 none
  std::string text;        // what the raising rank knows, one line; may be cut to 200 bytes on the way
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  virtual RingGeometry geometry() const = 0;

  // The producer's (consumer's) end of link (me -> peer, tag), or (peer -> me, tag). Local, never waits for the peer;
  // both ends of a link are opened once, in any order. The Link is valid as long as the transport.
  virtual Result<Link> open_send(int peer, uint16_t tag) = 0;
  virtual Result<Link> open_recv(int peer, uint16_t tag) = 0;

  // False: the peers see each other's memory, progress() has nothing to do and is never called.
  virtual bool pumped() const { return true; }
  // Moves data (transports with a pump): true if anything moved. Never blocks. Errors show in fault().
  virtual bool progress() { return false; }
  // All that was pushed has left this process's memory for good (kernel or peer): a call returns only then.
  virtual bool flushed() const { return true; }
  // The call fails and its buffers go back to the caller: what was lent (Link::lend) and has not left is copied to
  // where it would have been without.
  virtual void reclaim() {}
  // File descriptors to sleep on besides the doorbell, with the events wanted now; empty for shm.
  virtual void poll_set(std::vector<pollfd>& fds) const { (void)fds; }

  // The memory that these ranks have registered; null: they share none.
  virtual Regions* regions() { return nullptr; }

  // Publishes the call this rank has entered, for peers that wait or compare.
  virtual void announce(const CallRecord& call) = 0;
  // What `rank`, a peer that this transport reaches or this rank itself, has announced with sequence number `seq` (0:
  // its latest), if it is among the last 64 and known.
  virtual std::optional<CallRecord> announced(int rank, uint64_t seq) const = 0;

  // Cold path, called at least every 250 ms while a call waits: looks whether one of this transport's peers has died
  // (process ended, connection lost) and for faults raised by others. The first fault found stays.
  virtual std::optional<Fault> fault() = 0;
  // `peer` has left in good order (destroyed its communicator) and all it had sent is here. No fault, unless it is
  // waited for.
  virtual bool left(int peer) const { return (void)peer, false; }
  // Tells all peers that this communicator has failed; never blocks. Any thread.
  virtual void raise(const Fault& fault) = 0;
};

}  // namespace hocket
