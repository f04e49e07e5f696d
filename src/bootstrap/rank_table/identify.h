// Who am I, by a rank table and the variables that go with it. See docs/ranktable.md for their meaning:
//
//   RANK_TABLE_FILE or MINDSPORE_HCCL_CONFIG_PATH   the table
//   RANK_ID                                         this process's rank in it
//   RANK_SIZE, DEVICE_ID, SERVER_ID                 if set, they must agree with it
//   HOCKET_SPARES                                   how many of its last ranks are spare cards
//   HOCKET_PORT_RANGE, HCCL_HOST_SOCKET_PORT_RANGE, HCCL_IF_BASE_PORT
//                                                   where rank 0 listens, if the table has no host_port
#pragma once

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/identity.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::rank_table {

// Whether a variable names a table.
bool has_rank_table(const Environment& environment);

// The file that the variables name, "" if none; an error if they contradict one another.
Result<std::string> table_path(const Environment& environment);
// Reads a table without errors, and waits until the deadline while its status is "initializing".
Result<RankTable> read_completed(const std::string& path, Deadline deadline);
// How many of the table's ranks the job has: all but HOCKET_SPARES.
Result<int> ranks_of_job(const RankTable& table, const Environment& environment);
// The URL where the ranks of the table meet, and where that comes from.
struct Meeting {
  std::string url, note;
};
Result<Meeting> meeting_of(const RankTable& table, const Environment& environment);

// Reads the table, and waits until the deadline while its status is "initializing". What is wrong with this process
// alone is in Identity::refusal, so that the others hear of it; what is wrong with the table, or keeps the others from
// being found, is the error. Opens no socket.
Result<Identity> identity_from_table(const Environment& environment, Deadline deadline);

}  // namespace hocket::rank_table
