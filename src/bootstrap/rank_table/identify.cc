#include "bootstrap/rank_table/identify.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/rank_table/agree.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

constexpr const char* kTableFile = "RANK_TABLE_FILE";
constexpr const char* kMindSpore = "MINDSPORE_HCCL_CONFIG_PATH";
constexpr int kPollMs = 100;
// Hocket's own range where nothing else is said: the one that HCCL has.
constexpr int kBasePort = 60000;

Error refuse(Kind kind, const std::string& file, json::Place place, std::string field, Problems::What what) {
  const Problem problem{
      kind, file, place, std::move(field), std::move(what.found), std::move(what.expected), std::move(what.fix)};
  Error out;
  out.code = hktInvalidUsage;
  out.text = file.empty() ? problem.text() : "rank table " + problem.text();
  return out;
}

}  // namespace

Result<std::string> table_path(const Environment& environment) {
  const auto file = environment(kTableFile);
  const auto other = environment(kMindSpore);
  if (file && other && *file != *other) {
    return refuse(
        Kind::two_tables, "", {}, format("environment variable %s", kMindSpore),
        {in_quotes(*other), format("the same as %s, %s", kTableFile, in_quotes(*file).c_str()), "unset one of them"});
  }
  if (const auto chief = environment("CM_CHIEF_IP")) {
    return refuse(
        Kind::two_tables, "", {}, "environment variable CM_CHIEF_IP",
        {in_quotes(*chief), "it unset, as there is a rank table", "unset the CM_* variables, or the table's"});
  }
  return file ? *file : other.value_or("");
}

static bool half_written(const Problems& problems) {
  const auto transient = [](const Problem& p) {
    return p.kind == Kind::unreadable_file || p.kind == Kind::empty_file || p.kind == Kind::truncated_file ||
           p.kind == Kind::not_json;
  };
  return std::any_of(problems.list().begin(), problems.list().end(), transient);
}

Result<RankTable> read_completed(const std::string& path, Deadline deadline) {
  bool waited = false;
  while (true) {
    Reading reading = read_file(path);
    const bool good = !reading.initializing && reading.problems.errors() == 0;
    if (good) {
      for (const Problem& problem : reading.problems.list())
        HKT_INFO(init, LogId{}, "rank table %s", problem.text().c_str());
      return std::move(reading.table);
    }
    // Once it was seen to be written it may be incomplete for a moment.
    if (!reading.initializing && !(waited && half_written(reading.problems) && !deadline.passed())) {
      return reading.problems.as_error();
    }
    if (deadline.passed()) {
      Error out = refuse(
          Kind::not_completed, path, {}, "status",
          {format("\"initializing\" for %.3g s", static_cast<double>(deadline.span_ns()) / 1e9),
           "\"completed\" in time", "see whether what fills the table is running, or raise HOCKET_INIT_TIMEOUT"});
      out.code = hktTimeout;
      return out;
    }
    if (!waited) HKT_INFO(init, LogId{}, "rank table %s is initializing: waiting for it", path.c_str());
    waited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(kPollMs)));
  }
}

namespace {

// A variable that has to be a whole number if it is set.
Result<std::optional<int>> number(const Environment& environment, const char* name, int low, int high) {
  const auto setting = from_environment(environment, name);
  if (!setting) return std::optional<int>();
  HKT_ASSIGN(const int value, whole_number(*setting, low, high));
  return std::optional<int>(value);
}

struct Port {
  int number = 0;
  std::string origin;
};

Result<Port> port_of(const RankTable::Member& root, const Environment& environment) {
  const Device& device = *root.device;
  if (device.host_port) return Port{*device.host_port, format("host_port of rank %d", device.rank)};
  const auto local = static_cast<size_t>(std::max(device.local, 0));
  HKT_ASSIGN(const PortRanges ports, port_ranges(environment));
  if (ports.ranges.empty()) {
    // A range that is "auto" leaves the choice to the system, but the others have to know this one.
    HKT_ASSIGN(const std::optional<int> base, number(environment, "HCCL_IF_BASE_PORT", 1024, 65520));
    const int first = base.value_or(kBasePort);
    const size_t port = static_cast<size_t>(first) + local;
    if (port <= 65535) return Port{static_cast<int>(port), format("base port %d, local id %zu", first, local)};
    return error(hktInvalidUsage, "base port %d plus local id %zu is no port: set HCCL_IF_BASE_PORT lower [%s]", first,
                 local, name_of(Kind::port_taken));
  }
  if (local < ports.size()) return Port{ports.port(local), format("%s, local id %zu", ports.origin.c_str(), local)};
  return error(hktInvalidUsage, "%s has %zu ports, and none for local id %zu: give it %zu ports [%s]",
               ports.origin.c_str(), ports.size(), local, local + 1, name_of(Kind::port_taken));
}

// The device of this host that a container shows as its `logical`-th; nothing if no variable says so.
std::optional<int64_t> physical(const Environment& environment, int logical) {
  for (const char* name : {"ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"}) {
    const auto list = environment(name);
    if (!list) continue;
    std::string_view rest = *list;
    for (int i = 0; !rest.empty(); ++i) {
      const std::string_view word = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      if (i == logical) return parse_int(word);
    }
  }
  return std::nullopt;
}

// One process against the table that it was given. The first thing that is wrong counts.
class Membership {
 public:
  Membership(const RankTable& table, const Environment& environment) : table_(table), environment_(environment) {}

  Result<Identity> find() {
    HKT_ASSIGN(nranks_, ranks_of_job(table_, environment_));
    HKT_ASSIGN(const std::optional<int> id, number(environment_, "RANK_ID", 0, kMaxRanks - 1));
    const int rank = id.value_or(0);  // the caller has seen that it is set
    const std::optional<RankTable::Member> me = table_.find(rank);
    if (rank >= nranks_ || !me) {
      return refuse(Kind::rank_not_in_table, table_.file, {}, "environment variable RANK_ID",
                    {std::to_string(rank),
                     format("0 to %d, as the table has %d ranks%s", nranks_ - 1, nranks_,
                            nranks_ < table_.size() ? " without its spares" : ""),
                     "start as many processes as the table has ranks, or give all the table that has this rank"});
    }
    me_ = *me;
    Identity out;
    out.rank = rank;
    out.nranks = nranks_;
    out.local_rank = me_.device->local;
    HKT_TRY(place(out));
    for (const auto check : {&Membership::check_size, &Membership::check_server, &Membership::check_device}) {
      Status good = (this->*check)();
      if (good.ok()) continue;
      out.refusal = Error{good.error().code, format("rank %d: ", out.rank) + good.error().text};
      break;
    }
    return out;
  }

 private:
  std::string entry() const { return format("rank %d of the table", me_.device->rank); }

  // Where the ranks meet.
  Status place(Identity& out) const {
    HKT_ASSIGN(Meeting meeting, meeting_of(table_, environment_));
    out.url = std::move(meeting.url);
    out.note = std::move(meeting.note);
    return check_own_address(out.rank);
  }

  // Rank 0 can be found only if its address is this host's; for the others it is not vital.
  Status check_own_address(int rank) const {
    const std::optional<HostAddress> mine = host_address(me_);
    if (!mine || is_loopback(mine->host)) return {};
    HKT_ASSIGN(const std::vector<Interface> all, all_interfaces());
    std::string seen;
    for (const Interface& interface : all) {
      if (interface.address.host() == mine->host) return {};
      if (!interface.address.is_loopback()) seen += (seen.empty() ? "" : ", ") + interface.address.host();
    }
    Error out = refuse(Kind::foreign_address, table_.file, mine->place, mine->field,
                       {mine->host, "an address of this host, which has " + (seen.empty() ? "none" : seen),
                        format("start rank %d on the host of this address, or correct the table", rank)});
    if (rank == 0) return out;
    HKT_WARN(init, (LogId{rank, nranks_}), "%s", out.text.c_str());
    return {};
  }

  Status check_size() {
    HKT_ASSIGN(const std::optional<int> size, number(environment_, "RANK_SIZE", 1, kMaxRanks));
    if (!size || *size == nranks_) return {};
    const bool fewer = *size < nranks_;
    return refuse(
        fewer ? Kind::spare_devices : Kind::rank_size_differs, table_.file, {}, "environment variable RANK_SIZE",
        {std::to_string(*size), format("%d, as many as the table has", nranks_),
         fewer ? format("set it to %d; or, if the last %d ranks are spare cards, set HOCKET_SPARES=%d on all ranks",
                        nranks_, table_.size() - *size, table_.size() - *size)
               : "start as many processes as the table has ranks, or use the table of this job"});
  }

  // By number, in the order of the table, or by its server_id.
  Status check_server() {
    const auto given = environment_("SERVER_ID");
    if (!given || *given == me_.server->id || parse_int(*given) == std::optional<int64_t>(me_.server_index)) return {};
    return refuse(
        Kind::server_id_differs, table_.file, me_.server->place, "environment variable SERVER_ID",
        {in_quotes(*given),
         format("%d or %s: the server of %s", me_.server_index, in_quotes(me_.server->id).c_str(), entry().c_str()),
         "correct RANK_ID or SERVER_ID of this process"});
  }

  Status check_device() {
    HKT_ASSIGN(const std::optional<int> id, number(environment_, "DEVICE_ID", 0, 65535));
    if (!id || *id == me_.device->id) return {};
    // In a container DEVICE_ID may count what is visible there; tables count what the host has.
    if (physical(environment_, *id) == std::optional<int64_t>(me_.device->id)) return {};
    std::string found = std::to_string(*id);
    for (const Device& other : me_.server->devices) {
      if (other.id == *id) found += format(", which the table gives to rank %d", other.rank);
    }
    return refuse(
        Kind::device_id_differs, table_.file, me_.device->place, "environment variable DEVICE_ID",
        {found, format("%d: the device of %s", me_.device->id, entry().c_str()),
         "give each process its own RANK_ID and DEVICE_ID; in a container, where devices are counted anew, say by "
         "ASCEND_RT_VISIBLE_DEVICES which of the host's they are"});
  }

  const RankTable& table_;
  const Environment& environment_;
  int nranks_ = 0;
  RankTable::Member me_;
};

}  // namespace

Result<int> ranks_of_job(const RankTable& table, const Environment& environment) {
  HKT_ASSIGN(const std::optional<int> given,
             number(environment, "HOCKET_SPARES", 0, static_cast<int>(kMaxRanksOfTable)));
  const int spares = given.value_or(0);
  if (spares < table.size()) return table.size() - spares;
  return refuse(Kind::spare_devices, table.file, {}, "environment variable HOCKET_SPARES",
                {std::to_string(spares), format("fewer than the %d entries of the table", table.size()),
                 "set it to the number of spare cards"});
}

Result<Meeting> meeting_of(const RankTable& table, const Environment& environment) {
  const std::optional<RankTable::Member> root = table.find(0);
  const std::optional<HostAddress> address = root ? host_address(*root) : std::nullopt;
  if (!root || !address) {
    return refuse(
        Kind::no_host_address, table.file, root ? root->server->place : json::Place{}, "host_ip",
        {"no address of the host of rank 0", "host_ip, an address as server_id, or an IPV4 or IPV6 entry of 2.0",
         "add it: it is where the ranks meet"});
  }
  HKT_ASSIGN(const Port port, port_of(*root, environment));
  const bool v6 = address->host.find(':') != std::string::npos;
  Meeting out;
  out.url = format(v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", address->host.c_str(), port.number);
  out.note = format("%s in %s:%u:%u; port: %s", address->field.c_str(), table.file.c_str(), address->place.line,
                    address->place.column, port.origin.c_str());
  return out;
}

bool has_rank_table(const Environment& environment) {
  return environment(kTableFile).has_value() || environment(kMindSpore).has_value();
}

Result<Identity> identity_from_table(const Environment& environment, Deadline deadline) {
  HKT_ASSIGN(const std::string path, table_path(environment));
  if (!environment("RANK_ID")) {
    return refuse(Kind::rank_id_not_set, "", {}, "environment variable RANK_ID",
                  {"nothing", format("the rank of this process in the rank table %s", in_quotes(path).c_str()),
                   "export RANK_ID in each process, from 0 on"});
  }
  HKT_ASSIGN(const RankTable table, read_completed(path, deadline));
  HKT_ASSIGN(Identity out, Membership(table, environment).find());
  out.table = share(table);
  return out;
}

}  // namespace hocket::rank_table
