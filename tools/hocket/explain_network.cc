#include "explain_network.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/deadline.h"
#include "base/network_env.h"
#include "base/routes.h"
#include "base/socket.h"
#include "bootstrap/interfaces.h"

namespace hocket::tool {
namespace {

constexpr int kPatienceMs = 3000;

struct Probe {
  Way way;
  Fd fd = {};
  std::string outcome = "no answer within 3 s";
  double ms = 0;
  bool answers = false;
};

// All at once: the first that answers is the one that a rank would use.
std::vector<Probe> try_all(const std::vector<Way>& ways) {
  std::vector<Probe> out;
  const int64_t start = now_ns();
  const Deadline deadline = Deadline::in_ms(kPatienceMs);
  const auto since = [&] { return static_cast<double>(now_ns() - start) / 1e6; };
  for (const Way& way : ways) {
    Probe& p = out.emplace_back(Probe{way});
    Result<Fd> fd = start_connect(way.to, way.from.valid() ? &way.from : nullptr);
    if (fd) {
      p.fd = std::move(*fd);
    } else {
      p.outcome = fd.error().text;
    }
  }
  for (;;) {
    std::vector<pollfd> polled;
    for (const Probe& p : out) polled.push_back({p.fd.get(), POLLOUT, 0});  // poll() leaves out what is negative
    const bool any = std::any_of(out.begin(), out.end(), [](const Probe& p) { return static_cast<bool>(p.fd); });
    if (!any || deadline.passed() || (poll(polled.data(), polled.size(), deadline.left_ms()) < 0 && errno != EINTR)) {
      return out;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (polled[i].revents == 0) continue;
      Probe& p = out[i];
      const Status connected = finish_connect(p.fd.get(), p.way.to);
      p.answers = connected.ok();
      p.outcome = p.answers ? "answers" : connected.error().text;
      p.ms = since();
      p.fd.reset();
    }
  }
}

// The position of the one that answered first.
std::optional<size_t> winner_of(const std::vector<Probe>& probes) {
  std::optional<size_t> out;
  for (size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].answers && (!out || probes[i].ms < probes[*out].ms)) out = i;
  }
  return out;
}

std::string why(const Interface& interface, const std::optional<Sourced>& rule) {
  const std::string special = remark(interface);
  if (rule) return "by " + rule->name + "=" + rule->value;
  return special.empty() ? "HOCKET_SOCKET_FAMILY" : special;
}

}  // namespace

Status explain_network(const std::vector<std::string>& peers, bool json) {
  HKT_ASSIGN(const std::vector<Interface> usable, usable_interfaces());
  HKT_ASSIGN(const std::vector<Interface> all, all_interfaces());
  HKT_ASSIGN(const Bound bound, source_rule());
  HKT_ASSIGN(const Family family, socket_family());
  HKT_ASSIGN(std::optional<Sourced> rule, host_address());
  if (!rule) {
    HKT_ASSIGN(rule, interface_list());
  }
  nlohmann::ordered_json out{{"addresses", nlohmann::ordered_json::array()},
                             {"left_out", nlohmann::ordered_json::array()},
                             {"peers", nlohmann::ordered_json::array()}};
  if (!json) std::printf("this host is reached at, best first:\n");
  for (const Interface& i : usable) {
    const std::string note = remark(i);
    out["addresses"].push_back({{"interface", i.name}, {"address", i.address.host()}, {"remark", note}});
    if (!json) {
      std::printf("  %-12s %-40s%s%s\n", i.name.c_str(), i.address.host().c_str(), note.empty() ? "" : "  ",
                  note.c_str());
    }
  }
  for (const Interface& i : all) {
    const auto same = [&](const Interface& u) { return u.name == i.name && u.address == i.address; };
    if (std::any_of(usable.begin(), usable.end(), same)) continue;
    const std::string reason = why(i, rule);
    out["left_out"].push_back({{"interface", i.name}, {"address", i.address.host()}, {"why", reason}});
    if (!json) std::printf("  left out: %s %s (%s)\n", i.name.c_str(), i.address.host().c_str(), reason.c_str());
  }
  std::string silent;
  for (const std::string& peer : peers) {
    HKT_ASSIGN(const HostPort where, parse_host_port(peer));
    HKT_ASSIGN(const std::vector<Address> addresses, resolve(where, family));
    const std::vector<Probe> probes = try_all(ways_to(addresses, networks(usable), bound));
    const std::optional<size_t> winner = winner_of(probes);
    if (!winner) silent += (silent.empty() ? "" : ", ") + peer;
    nlohmann::ordered_json ways = nlohmann::ordered_json::array();
    if (!json) std::printf("%s, all ways at once:\n", peer.c_str());
    for (size_t i = 0; i < probes.size(); ++i) {
      const Probe& p = probes[i];
      const bool won = winner == i;
      ways.push_back({{"to", p.way.to.text()},
                      {"from", p.way.from.valid() ? p.way.from.host() : ""},
                      {"outcome", p.outcome},
                      {"ms", p.ms},
                      {"wins", won}});
      if (json) continue;
      std::printf("%c %-50s %s", won ? '>' : ' ', p.way.text().c_str(), p.outcome.c_str());
      if (p.answers) std::printf(" after %.2f ms%s", p.ms, won ? ", the first" : "");
      std::printf("\n");
    }
    out["peers"].push_back({{"peer", peer}, {"ways", std::move(ways)}});
  }
  if (json) std::printf("%s\n", out.dump(1).c_str());
  if (silent.empty()) return {};
  return error(hktRemoteError, "no way to %s answers: is something listening there, and is a firewall in between?",
               silent.c_str());
}

}  // namespace hocket::tool
