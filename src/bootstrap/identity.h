// Who am I: the rank of this process, the size of its job and the place where its ranks meet, from a URL and the
// environment. Nothing is opened or connected here. Any thread.
//
//   env://                                    what the launcher says (launchers.h): torchrun, mpirun, srun, ..., or
//                                             RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, if set LOCAL_RANK
//   tcp://HOST:PORT[?rank=R&world_size=N]     rank 0 listens there; an IPv6 address in brackets
//   file:///PATH[?rank=R&world_size=N]        a file that all ranks see; the path is taken as it is, up to a '?'
//
// What a URL leaves out of rank and world_size comes from the launcher. Each error is one line: what is wrong, where it
// came from, what to set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/launchers.h"
#include "bootstrap/setting.h"

namespace hocket {

namespace rank_table {
struct SharedTable;
}  // namespace rank_table

struct Identity {
  int rank = 0;               // -1: the server at `place` knows
  int nranks = 1;             // the same
  int local_rank = -1;        // -1: unknown
  std::string url;            // where the ranks meet: "tcp://host:port" or "file:///path", without parameters
  MeetingPlace place = {};    // where they meet if it is no URL
  std::string launcher = {};  // "" if none
  // The how-manieth bring-up of this process through `place`, from 1 on, as count_bring_up() says: what ranks left
  // there for the one before is not for this one.
  uint64_t bring_up = 1;
  std::string note = {};  // where the URL comes from, for messages; "" if a person wrote it
  std::shared_ptr<const rank_table::SharedTable> table = {};  // the rank table that all ranks must have; null: none
  // Why this process cannot be a rank, though it knows which: Rendezvous::open returns it, on all ranks.
  std::optional<Error> refusal = {};
};

// Counts the bring-ups of this process whose place is its launcher's.
uint64_t count_bring_up();

Result<Identity> parse_url(std::string_view url, const Environment& environment = process_environment());

// Who am I, by the environment alone: HOCKET_INIT, else a rank table (rank_table/identify.h), else env://. Waits until
// the deadline for a table that is still being made.
Result<Identity> identify(const Environment& environment, Deadline deadline);

// Checks a rank and a size that come from a caller.
Status check_rank(int rank, int nranks);

// The host this process counts as being on: HOCKET_HOST_ID, else boot id and network namespace, so that containers with
// a network of their own are hosts of their own. At most 128 bytes.
Result<std::string> host_id();

}  // namespace hocket
