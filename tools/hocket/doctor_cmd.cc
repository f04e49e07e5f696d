// `hocket doctor`: this machine, and with --peers others and the ways between them.
#include <fcntl.h>
#include <poll.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "commands.h"
#include "doctor.h"
#include "remote.h"

namespace hocket::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReachMs = 3000;   // for one address to answer
constexpr int kPeerMs = 30'000;  // for a peer's whole report
constexpr double kSkewS = 1.0;   // of two clocks: what makes logs hard to compare
constexpr size_t kMostReport = 1 << 20;

struct DoctorFlags {
  std::string peers;
  std::string remote = "ssh -o BatchMode=yes";
  bool json = false;
  std::string reach;  // on a peer: addresses of the one that asks
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
  if (!f.reach.empty()) report["reach"] = reach(f.reach);
  report["findings"] = Json::array();
  for (const Finding& x : findings)
    report["findings"].push_back(
        {{"check", x.check}, {"verdict", word(x.verdict)}, {"found", x.found}, {"fix", x.fix}});
  return report;
}

// Runs `command` and returns what it prints; an error text if it does not end in time or fails.
Result<std::string> output_of(const std::vector<std::string>& command, Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return descriptor_error("cannot make a pipe");
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return sys_error("cannot start %s", command.front().c_str());
  if (pid == 0) {
    dup2(to.get(), STDOUT_FILENO);
    std::vector<char*> words;
    for (const std::string& w : command) words.push_back(const_cast<char*>(w.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
  to.reset();
  std::string out;
  bool in_time = true;
  for (;;) {
    Result<bool> ready = wait_ready(from.get(), POLLIN, deadline);
    in_time = ready && *ready;
    char part[4096];
    const ssize_t n = in_time ? read(from.get(), part, sizeof part) : 0;
    if (n <= 0 || out.size() > kMostReport) break;
    out.append(part, static_cast<size_t>(n));
  }
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!in_time) return error(hktTimeout, "no report within %d s", kPeerMs / 1000);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
    return error(hktRemoteError, "%s ends with status %d", command.front().c_str(),
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return out;
}

// A text of a peer's report, "" if there is none: nothing that comes from there is relied on.
std::string text_of(const Json& from, const char* name) {
  const auto at = from.find(name);
  return at != from.end() && at->is_string() ? one_line(at->get<std::string>()) : "";
}

// Everything about one peer, seen from here.
void look_at_peer(const std::string& peer, const DoctorFlags& f, const std::string& addresses,
                  std::vector<Finding>& out) {
  std::vector<std::string> command = split(f.remote, ' ');
  command.push_back(peer);
  command.push_back(own_path() + " doctor --json --reach " + addresses);
  const double before = clock_now();
  Result<std::string> text = output_of(command, Deadline::in_ms(kPeerMs));
  const double after = clock_now();
  const Json report = text ? Json::parse(*text, nullptr, false) : Json();
  if (!report.is_object() || !report.contains("findings") || !report["findings"].is_array()) {
    out.push_back({peer + ": report", Verdict::fail,
                   text ? "what it prints is no report: " + in_quotes(*text, 60) : text.error().text,
                   "see that `" + f.remote + " " + peer + " " + own_path() + " doctor` works"});
    return;
  }
  const std::string version = text_of(report, "version"), kernel = text_of(report, "kernel");
  out.push_back({peer + ": library", version == library_version() ? Verdict::ok : Verdict::fail, version,
                 version == library_version() ? "" : "install " + library_version() + ", as here"});
  out.push_back({peer + ": kernel", kernel == kernel_version() ? Verdict::ok : Verdict::warn, kernel,
                 kernel == kernel_version() ? "" : "here it is " + kernel_version()});
  // The peer read its clock between `before` and `after`.
  const double there = report.contains("time") && report["time"].is_number() ? report["time"].get<double>() : 0;
  const double skew = there < before ? there - before : there > after ? there - after : 0;
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

int run_doctor(const DoctorFlags& f) {
  std::vector<Finding> findings = look_at_this_machine();
  if (!f.peers.empty()) {
    // Peers connect to these; nobody need accept.
    std::vector<Fd> listeners;
    std::string addresses;
    Result<std::vector<Interface>> mine = usable_interfaces();
    for (size_t i = 0; mine && i < mine->size(); ++i) {
      Result<Fd> fd = listen_in_range((*mine)[i].address);
      if (!fd) {
        findings.push_back({"ports", Verdict::fail, fd.error().text, "set HOCKET_PORT_RANGE to ports that are free"});
        continue;
      }
      if (const Result<Address> at = local_address(fd->get()); at.ok())
        addresses += (addresses.empty() ? "" : ",") + at.value().text();
      listeners.push_back(std::move(*fd));
    }
    for (const std::string& peer : split(f.peers, ',')) look_at_peer(peer, f, addresses, findings);
  }
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
  doctor->add_option("--remote", f->remote, "command that runs a command line on a host")->capture_default_str();
  doctor->add_flag("--json", f->json, "the report as JSON");
  doctor->add_option("--reach", f->reach)->group("");
  doctor->callback([f, &status] {
    if (f->peers.rfind('-', 0) == 0 || f->peers.find(",-") != std::string::npos)
      status = complain(2, "--peers: a host's name does not begin with -");
    else
      status = run_doctor(*f);
  });
}

}  // namespace hocket::tool
