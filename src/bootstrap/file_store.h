// The store in one shared file: a log that grows, on any file system with byte-range locks (also NFS v4).
//
// Layout. A header of 64 bytes: "HKTF", u16 version, u16 0, u64 committed size, and who made it when, for messages.
// Then records: u32 length, u8 kind, u32 rank, body; kinds are join, put, fail and leave. A record counts once the
// committed size covers it, so a writer killed half-way leaves nothing that anyone reads.
//
// Locks, all of the open file description (they end with the process, however it ends), far behind the data: one byte
// is the mutex of writers, and every rank holds one byte of its own while it takes part. That makes four things plain:
//   - a file of which no rank's byte is locked belongs to nobody alive: it is stale, and whoever comes next, holding
//   the
//     mutex, empties it and starts anew;
//   - a file with a rank that joined, did not leave, and holds no lock is one of a job that is dying: a newcomer waits
//     until it is stale instead of joining it;
//   - a rank's byte that is locked already means two processes with one rank;
//   - a rank that dies is noticed by another, which watches it, within half a second.
// The last rank to leave removes the file. A file that is not one of these is never touched: that is an error.
#pragma once

#include <memory>
#include <string>

#include "bootstrap/store.h"

namespace hocket {

Result<std::unique_ptr<Store>> open_file_store(const std::string& path, int rank, int nranks, Deadline deadline);

}  // namespace hocket
