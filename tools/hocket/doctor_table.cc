#include "doctor_table.h"

#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/rank_table/agree.h"
#include "bootstrap/rank_table/identify.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::tool {
namespace {

constexpr const char* kCheck = "rank table";

void look_at_place(const TableView& view, std::vector<Finding>& out) {
  size_t ranks = 0;
  std::string addresses;
  for (const TableHost& host : view.hosts) {
    if (!host.here) continue;
    ranks += host.ranks.size();
    addresses += (addresses.empty() ? "" : ", ") + (host.name.empty() ? "its only server" : host.name);
  }
  if (ranks == 0) {
    const Result<std::string> mine = own_addresses();
    out.push_back({"place in the table", Verdict::warn,
                   "none of its hosts is this one, which has " + (mine.ok() ? mine.value() : mine.error().text),
                   "correct the table, or start the job on its hosts; a container needs the host's network, or its own "
                   "address in the table"});
    return;
  }
  out.push_back({"place in the table", Verdict::ok, format("%s: %zu ranks", addresses.c_str(), ranks), ""});
  if (view.hosts.size() < 2) return;
  if (const Result<PortRanges> ports = port_ranges(); ports.ok()) {
    if (const Status enough = check_enough(ports.value(), ranks); !enough.ok())
      out.push_back({"ports of the ranks", Verdict::fail, enough.error().text, "give HOCKET_PORT_RANGE more ports"});
  }
}

// Rank 0 listens where the table says.
void look_at_meeting(const rank_table::RankTable& table, const TableView& view, std::vector<Finding>& out) {
  const Result<rank_table::Meeting> meeting = rank_table::meeting_of(table, process_environment());
  if (!meeting.ok()) {
    out.push_back({"meeting place", Verdict::fail, meeting.error().text, "add host_ip of rank 0's server"});
    return;
  }
  const std::string found = meeting.value().url + " (" + meeting.value().note + ")";
  const Result<HostPort> where = parse_host_port(meeting.value().url.substr(6));
  if (!where.ok()) return;
  bool here = false;
  for (const TableHost& host : view.hosts)
    for (const int rank : host.ranks) here = here || (rank == 0 && host.here);
  if (here) {
    const Result<std::vector<Address>> address = resolve(where.value(), Family::any);
    const Result<Fd> fd = address.ok() ? listen_on(address.value().front()) : Result<Fd>(address.error());
    if (!fd.ok()) {
      out.push_back({"meeting place", Verdict::fail, found + ": " + fd.error().text,
                     "set HCCL_IF_BASE_PORT or HOCKET_PORT_RANGE, equal on all ranks, to ports that are free"});
      return;
    }
  }
  const OutgoingPorts outgoing = OutgoingPorts::read();
  const bool good = !outgoing.has(where.value().port);
  out.push_back({"meeting place", good ? Verdict::ok : Verdict::warn,
                 good ? found
                      : found + ": one of the ports that the system takes for outgoing connections (" +
                            outgoing.text() + "), any of which may hold it when the job starts",
                 good ? ""
                      : format("set HCCL_IF_BASE_PORT or HOCKET_PORT_RANGE, equal on all ranks, to ports outside, or "
                               "reserve it on the host of rank 0: sysctl net.ipv4.ip_local_reserved_ports=%u",
                               where.value().port)});
}

}  // namespace

TableView look_at_table(const std::string& path, std::vector<Finding>& out) {
  TableView view;
  const rank_table::Reading reading = rank_table::read_file(path);
  if (reading.problems.errors() > 0) {
    out.push_back({kCheck, Verdict::fail, reading.problems.as_error().text,
                   "see docs/errors.md; `hocket ranktable lint " + path + "` has all of its errors"});
    return view;
  }
  if (reading.initializing) {
    out.push_back({kCheck, Verdict::warn, path + " is initializing", "wait for what fills it, and look again"});
    return view;
  }
  const Result<int> nranks = rank_table::ranks_of_job(reading.table, process_environment());
  if (!nranks.ok()) {
    out.push_back({kCheck, Verdict::fail, nranks.error().text, "set HOCKET_SPARES to the number of spare cards"});
    return view;
  }
  Result<std::vector<TableHost>> hosts = hosts_of(reading.table, nranks.value());
  if (!hosts.ok()) {
    out.push_back({kCheck, Verdict::fail, hosts.error().text, "look at `ip addr`"});
    return view;
  }
  view.hosts = std::move(hosts.value());
  view.digest = format("%016llx", static_cast<unsigned long long>(rank_table::share(reading.table)->digest));
  const size_t warnings = reading.problems.warnings();
  out.push_back({kCheck, warnings == 0 ? Verdict::ok : Verdict::warn,
                 format("%s: version %s, %zu servers, %d ranks", path.c_str(),
                        rank_table::name_of(reading.table.version), reading.table.servers.size(), nranks.value()) +
                     (warnings == 0 ? "" : format(", %zu warnings", warnings)),
                 warnings == 0 ? "" : "`hocket ranktable lint " + path + "` shows them"});
  look_at_place(view, out);
  look_at_meeting(reading.table, view, out);
  return view;
}

}  // namespace hocket::tool
