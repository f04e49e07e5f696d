// `hocket doctor`: this machine, and with --peers or a rank table others and the ways between them.
#include <sys/utsname.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/rank_table/identify.h"
#include "commands.h"
#include "doctor.h"
#include "doctor_table.h"
#include "host_list.h"
#include "probe.h"
#include "remote.h"

namespace hocket::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReachMs = 3000;   // for one address to answer
constexpr int kPeerMs = 30'000;  // for a peer's whole report
constexpr double kSkewS = 1.0;   // of two clocks: what makes logs hard to compare

struct DoctorFlags {
  std::string peers;
  std::string remote = kSsh;
  std::string rank_table;
  bool json = false;
  std::string reach;  // on a peer: addresses of the one that asks
  // found out
  std::vector<std::string> remote_words;
  std::string table;  // digest of the rank table, "" if there is none
};

const char* word(Verdict v) { return v == Verdict::ok ? "ok" : v == Verdict::warn ? "warn" : "fail"; }

std::string library_version() { return format("%d.%d.%d", HKT_MAJOR, HKT_MINOR, HKT_PATCH); }
std::string kernel_version() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}
double clock_now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

// On a peer: which of the asker's addresses answer.
Json reach(const std::string& list) {
  Json out = Json::object();
  for (const std::string& text : split(list, ',')) {
    const auto where = parse_host_port(text);
    std::string why = where.ok() ? "" : where.error().text;
    if (where.ok()) {
      Result<std::vector<Address>> to = resolve(where.value(), Family::any);
      const Result<Fd> fd = to ? connect_to(to->front(), Deadline::in_ms(kReachMs)) : Result<Fd>(to.error());
      if (!fd.ok()) why = fd.error().text;
    }
    out[text] = why;
  }
  return out;
}

Json report_of(const std::vector<Finding>& findings, const DoctorFlags& f) {
  Json report;
  report["version"] = library_version();
  report["kernel"] = kernel_version();
  report["time"] = clock_now();
  if (!f.table.empty()) report["table"] = f.table;
  if (!f.reach.empty()) report["reach"] = reach(f.reach);
  report["findings"] = Json::array();
  for (const Finding& x : findings)
    report["findings"].push_back(
        {{"check", x.check}, {"verdict", word(x.verdict)}, {"found", x.found}, {"fix", x.fix}});
  return report;
}

// A text of a peer's report, "" if there is none: nothing that comes from there is relied on.
std::string text_of(const Json& from, const char* name) {
  const auto at = from.find(name);
  return at != from.end() && at->is_string() ? one_line(at->get<std::string>()) : "";
}

// A host to look at as well.
struct Peer {
  std::string name;     // for --remote
  std::string address;  // of a rank table
};

// The command that asks a peer for its report. Nothing secret is in it: all users of a machine see command lines.
std::vector<std::string> question(const Peer& peer, const DoctorFlags& f, const std::string& addresses) {
  std::string line = "exec env";
  for (const std::string& setting : own_settings())
    if (setting.substr(0, setting.find('=')).find("SECRET") == std::string::npos) line += " " + quoted(setting);
  line += " " + quoted(own_path()) + " doctor --json --reach " + quoted(addresses);
  if (!f.rank_table.empty()) line += " --rank-table " + quoted(f.rank_table);
  std::vector<std::string> out = f.remote_words;
  out.push_back(peer.name);
  out.push_back(line);
  return out;
}

// Everything about one peer, seen from here.
void look_at_peer(const Peer& who, const DoctorFlags& f, const Answer& answer, std::vector<Finding>& out) {
  const std::string& peer = who.name;
  const Result<std::string>& text = answer.text;
  const Json report = text.ok() ? Json::parse(text.value(), nullptr, false) : Json();
  if (!report.is_object() || !report.contains("findings") || !report["findings"].is_array()) {
    // Ranks of a table need not be started from here.
    const std::string there =
        who.address.empty() ? "" : ", or run `hocket doctor --rank-table " + f.rank_table + "` there";
    out.push_back({peer + ": report", who.address.empty() ? Verdict::fail : Verdict::warn,
                   text.ok() ? "what it prints is no report: " + in_quotes(text.value(), 60) : text.error().text,
                   "see that `" + f.remote + " " + peer + " " + own_path() + " doctor` works" + there});
    return;
  }
  const std::string version = text_of(report, "version"), kernel = text_of(report, "kernel");
  out.push_back({peer + ": library", version == library_version() ? Verdict::ok : Verdict::fail, version,
                 version == library_version() ? "" : "install " + library_version() + ", as here"});
  out.push_back({peer + ": kernel", kernel == kernel_version() ? Verdict::ok : Verdict::warn, kernel,
                 kernel == kernel_version() ? "" : "here it is " + kernel_version()});
  if (!f.table.empty()) {
    const bool same = text_of(report, "table") == f.table;
    out.push_back({peer + ": table", same ? Verdict::ok : Verdict::fail,
                   same ? "the same as here" : "not the same as here",
                   same ? "" : "copy " + f.rank_table + " to all hosts"});
  }
  // The peer read its clock between the two.
  const double there = report.contains("time") && report["time"].is_number() ? report["time"].get<double>() : 0;
  const double skew = there < answer.begun ? there - answer.begun : there > answer.ended ? there - answer.ended : 0;
  const bool in_step = std::fabs(skew) <= kSkewS;
  out.push_back({peer + ": clock", in_step ? Verdict::ok : Verdict::warn, format("%+.1f s against this host's", skew),
                 in_step ? "" : "run an NTP client (chrony) on both"});
  std::string good, bad;
  const Json reached = report.contains("reach") ? report["reach"] : Json::object();
  for (const auto& [address, why] : reached.items()) {
    const std::string reason = why.is_string() ? why.get<std::string>() : "?";
    (reason.empty() ? good : bad) += " " + address + (reason.empty() ? "" : " (" + one_line(reason) + ")");
  }
  out.push_back({peer + ": reaches this host",
                 good.empty()  ? Verdict::fail
                 : bad.empty() ? Verdict::ok
                               : Verdict::warn,
                 good.empty() ? "at none of its addresses:" + bad : "at" + good + (bad.empty() ? "" : ", not at" + bad),
                 bad.empty() ? "" : "open the firewall, or choose with HOCKET_SOCKET_IFNAME and HOCKET_PORT_RANGE"});
  for (const Json& x : report["findings"]) {
    if (!x.is_object() || text_of(x, "verdict") == "ok") continue;
    out.push_back({peer + ": " + text_of(x, "check"), text_of(x, "verdict") == "warn" ? Verdict::warn : Verdict::fail,
                   text_of(x, "found"), text_of(x, "fix")});
  }
}

// The servers of the table that are not this host, and whether they answer.
std::vector<Peer> peers_of(const TableView& table, std::vector<Finding>& out) {
  std::vector<Peer> peers;
  std::vector<std::string> addresses, names;
  for (const TableHost& host : table.hosts) {
    if (host.here) continue;
    if (!host.name.empty()) peers.push_back({host.name, host.name});
    if (host.address.empty()) continue;
    addresses.push_back(host.address);
    names.push_back(host.name);
  }
  const std::vector<std::string> failures = probe(addresses);
  for (size_t i = 0; i < failures.size(); ++i) {
    const bool good = failures[i].empty();
    out.push_back({names[i] + ": answers", good ? Verdict::ok : Verdict::fail, good ? "at this address" : failures[i],
                   good ? "" : "correct the address in the table, or see to the network between the two"});
  }
  return peers;
}

void look_at_peers(const std::vector<Peer>& peers, const DoctorFlags& f, std::vector<Finding>& findings) {
  // Peers connect to these; nobody need accept.
  std::vector<Fd> listeners;
  std::string addresses;
  const Result<std::vector<Interface>> mine = usable_interfaces();
  for (size_t i = 0; mine.ok() && i < mine.value().size(); ++i) {
    Result<Fd> fd = listen_in_range(mine.value()[i].address);
    if (!fd) {
      findings.push_back({"ports", Verdict::fail, fd.error().text, "set HOCKET_PORT_RANGE to ports that are free"});
      continue;
    }
    if (const Result<Address> at = local_address(fd->get()); at.ok())
      addresses += (addresses.empty() ? "" : ",") + at.value().text();
    listeners.push_back(std::move(*fd));
  }
  std::vector<std::vector<std::string>> questions;
  for (const Peer& peer : peers) questions.push_back(question(peer, f, addresses));
  const std::vector<Answer> answers = ask(questions, kPeerMs);
  for (size_t i = 0; i < peers.size(); ++i) look_at_peer(peers[i], f, answers[i], findings);
}

Result<int> run_doctor(DoctorFlags f) {
  HKT_ASSIGN(f.remote_words, remote_command(f.remote));
  std::vector<Peer> peers;
  if (!f.peers.empty()) {
    const Result<std::vector<HostSlots>> hosts = parse_hosts(f.peers);
    if (!hosts.ok())
      return error(hktInvalidUsage, "--peers is %s: give names or addresses of hosts, as in a,b,c",
                   in_quotes(f.peers).c_str());
    for (const HostSlots& host : hosts.value()) peers.push_back({host.host, ""});
  }
  std::vector<Finding> findings = look_at_this_machine();
  if (f.rank_table.empty() && f.reach.empty()) {
    HKT_ASSIGN(f.rank_table, rank_table::table_path(process_environment()));
  }
  if (!f.rank_table.empty()) {
    if (f.rank_table.front() != '/') f.rank_table = current_directory() + "/" + f.rank_table;
    const TableView table = look_at_table(f.rank_table, findings);
    f.table = table.digest;
    // Who is asked asks nobody.
    if (f.reach.empty())
      for (Peer& peer : peers_of(table, findings)) peers.push_back(std::move(peer));
  }
  if (!peers.empty()) look_at_peers(peers, f, findings);
  bool failed = false;
  for (const Finding& x : findings) failed = failed || x.verdict == Verdict::fail;
  if (f.json) {
    std::printf("%s\n", report_of(findings, f).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return failed ? 1 : 0;
  }
  for (const Finding& x : findings) {
    std::printf("%-4s  %s: %s\n", word(x.verdict), x.check.c_str(), x.found.c_str());
    if (!x.fix.empty()) std::printf("      -> %s\n", x.fix.c_str());
  }
  return failed ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App* doctor =
      app.add_subcommand("doctor", "look for what would keep a job from running, here and on other hosts");
  const auto f = std::make_shared<DoctorFlags>();
  doctor->add_option("--peers", f->peers, "hosts to look at as well, and the ways from them: a,b,c");
  doctor->add_option("--rank-table", f->rank_table,
                     "rank table: itself, this host's place in it, and its other hosts (default: RANK_TABLE_FILE)");
  doctor->add_option("--remote", f->remote, "command that runs a command line on a host")->capture_default_str();
  doctor->add_flag("--json", f->json, "the report as JSON");
  doctor->add_option("--reach", f->reach)->group("");
  doctor->callback([f, &status] {
    const Result<int> end = run_doctor(*f);
    status = end.ok() ? end.value() : complain(2, end.error().text);
  });
}

}  // namespace hocket::tool
