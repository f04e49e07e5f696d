// Who am I: the rank of this process, the size of its job and the place where its ranks meet, from a URL and the
// environment. Nothing is opened or connected here. Any thread.
//
//   env://                                    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, if set LOCAL_RANK
//   tcp://HOST:PORT[?rank=R&world_size=N]     rank 0 listens there; an IPv6 address in brackets
//   file:///PATH[?rank=R&world_size=N]        a file that all ranks see; the path is taken as it is, up to a '?'
//
// What a URL leaves out of rank and world_size comes from RANK and WORLD_SIZE. Each error is one line: what is wrong,
// where it came from, what to set.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"

namespace hocket {

namespace rank_table {
struct SharedTable;
}  // namespace rank_table

struct Identity {
  int rank = 0;
  int nranks = 1;
  int local_rank = -1;  // -1: unknown
  std::string url;      // where the ranks meet: "tcp://host:port" or "file:///path", without parameters
  std::string note;     // where the URL comes from, for messages; "" if a person wrote it
  std::shared_ptr<const rank_table::SharedTable> table;  // the rank table that all ranks must have; null: none
  // Why this process cannot be a rank, though it knows which: Rendezvous::open returns it, on all ranks.
  std::optional<Error> refusal;
};

// The environment as seen by the functions below: a variable's value, nothing if unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

Result<Identity> parse_url(std::string_view url, const Environment& environment = process_environment());

// Who am I, by the environment alone: HOCKET_INIT, else a rank table (rank_table/identify.h), else env://. Waits until
// the deadline for a table that is still being made.
Result<Identity> identify(const Environment& environment, Deadline deadline);

// Checks a rank and a size that come from a caller.
Status check_rank(int rank, int nranks);
// No job is larger: a bound for what is allocated from numbers that come from outside.
constexpr int kMaxRanks = 1 << 20;

// The host this process counts as being on: HOCKET_HOST_ID, else boot id and network namespace, so that containers with
// a network of their own are hosts of their own. At most 128 bytes.
Result<std::string> host_id();

}  // namespace hocket
