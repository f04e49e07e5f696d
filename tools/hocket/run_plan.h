// Who runs where: what `hocket run` makes of its arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"
#include "bootstrap/setting.h"

namespace hocket::tool {

struct RunFlags {
  int np = 0;
  std::string hosts;
  std::string rank_table;
  bool this_host = false;
  int spares = -1;
  std::string remote;
  std::string nnodes;
  int max_restarts = 0;
  std::string output;
  bool no_prefix = false;
  std::vector<std::string> exported;
  std::vector<std::string> command;
  // of the part of a job on one host
  int first_rank = 0;
  int world_size = 0;
  int server = -1;
  std::string meet;
  bool leash = false;
};

struct Plan {
  struct Host {
    std::string name;
    int ranks = 1;
    int server = -1;    // of the table
    bool here = false;  // no --remote is needed
  };
  // Which of the table's ranks are started by this very process.
  struct Table {
    rank_table::RankTable table;
    int nranks = 0;
    std::vector<int> here;
  };
  std::vector<Host> hosts;          // none: this machine alone
  std::vector<std::string> remote;  // words before the host's name
  bool slurm = false;
  bool elastic = false;
  size_t min_hosts = 0, max_hosts = 0;
  std::optional<Table> table;
};

// hktInvalidUsage for arguments that do not go together.
Result<Plan> make_plan(const RunFlags& flags, const Environment& environment);

}  // namespace hocket::tool
