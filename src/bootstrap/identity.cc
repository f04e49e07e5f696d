#include "bootstrap/identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/rank_table/identify.h"

namespace hocket {
namespace {

constexpr size_t kMaxUrl = 4096;

struct Parameters {
  std::optional<Setting> rank;
  std::optional<Setting> world_size;
};

Error absent(const char* name, const char* meaning, std::string_view url) {
  const char* also = std::string_view(name) == "RANK"         ? ", or write ?rank=R into the URL"
                     : std::string_view(name) == "WORLD_SIZE" ? ", or write ?world_size=N into the URL"
                                                              : "";
  const bool is_env = url.substr(0, 6) == "env://";
  return error(hktInvalidUsage, "environment variable %s (%s) is not set, but the URL %s needs it: set it%s", name,
               meaning, in_quotes(url).c_str(), is_env ? ", or set HOCKET_INIT to a tcp:// or file:// URL" : also);
}

// What the URL says counts; the rest is the launcher's.
Result<Identity> complete(std::string_view url, const Parameters& given, const Environment& environment) {
  Identity out;
  std::optional<Claim> claim;
  if (!given.rank || !given.world_size) {
    HKT_ASSIGN(claim, find_launcher(environment));
  }
  Number rank = claim ? claim->rank : Number();
  Number nranks = claim ? claim->nranks : Number();
  if (given.rank) {
    HKT_ASSIGN(rank.value, whole_number(*given.rank, 0, kMaxRanks - 1));
    rank.origin = given.rank->origin;
  }
  if (given.world_size) {
    HKT_ASSIGN(nranks.value, whole_number(*given.world_size, 1, kMaxRanks));
    nranks.origin = given.world_size->origin;
  }
  // A launcher's variable that is there alone is of use beside a URL that has the other.
  if (rank.value < 0) {
    HKT_ASSIGN(rank, agreed_number(environment, "the launcher", {"RANK"}, 0, kMaxRanks - 1));
  }
  if (nranks.value < 0) {
    HKT_ASSIGN(nranks, agreed_number(environment, "the launcher", {"WORLD_SIZE"}, 1, kMaxRanks));
  }
  // Some launchers' servers know rank and size, and nobody else does.
  const bool asks = url == "env://" && claim &&
                    (std::holds_alternative<PmiPlace>(claim->place) || std::holds_alternative<PmixPlace>(claim->place));
  if (rank.value < 0 && !asks) return absent("RANK", "the number of this process in its job", url);
  if (nranks.value < 0 && !asks) return absent("WORLD_SIZE", "the number of processes of the job", url);
  if (nranks.value >= 0 && rank.value >= nranks.value) {
    return error(hktInvalidUsage, "%s is %d, but %s is %d: ranks go from 0 to %d", rank.origin.c_str(), rank.value,
                 nranks.origin.c_str(), nranks.value, nranks.value - 1);
  }
  out.rank = rank.value;
  out.nranks = nranks.value;
  HKT_ASSIGN(const Number local, agreed_number(environment, "the launcher", {"LOCAL_RANK"}, 0, kMaxRanks - 1));
  out.local_rank = claim && claim->local_rank >= 0 ? claim->local_rank : local.value;
  if (claim) {
    HKT_INFO(init, (LogId{out.rank, std::max(0, out.nranks)}), "%s", claim->story.c_str());
    out.launcher = claim->launcher;
    out.place = std::move(claim->place);
  }
  return out;
}

Result<Parameters> parse_parameters(std::string_view query, std::string_view url) {
  Parameters out;
  while (!query.empty()) {
    const size_t ampersand = query.find('&');
    const std::string_view pair = query.substr(0, ampersand);
    query.remove_prefix(ampersand == std::string_view::npos ? query.size() : ampersand + 1);
    const size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    std::optional<Setting>* target = name == "rank" ? &out.rank : name == "world_size" ? &out.world_size : nullptr;
    if (target == nullptr || equals == std::string_view::npos) {
      return error(hktInvalidArgument, "%s in the URL %s is no parameter: known are rank=R and world_size=N",
                   in_quotes(pair).c_str(), in_quotes(url).c_str());
    }
    if (*target) {
      return error(hktInvalidArgument, "parameter %s occurs twice in the URL %s: leave one", in_quotes(name).c_str(),
                   in_quotes(url).c_str());
    }
    *target = Setting{std::string(pair.substr(equals + 1)), std::string(name) + " in the URL " + in_quotes(url)};
  }
  return out;
}

Result<Identity> from_env_scheme(std::string_view url, const Environment& environment) {
  if (url != "env://") {
    return error(hktInvalidArgument, "the URL %s does not parse: env:// takes nothing behind it",
                 in_quotes(url).c_str());
  }
  HKT_ASSIGN(Identity out, complete(url, Parameters{}, environment));
  if (const auto* place = std::get_if<std::string>(&out.place)) {
    out.url = *place;
    out.place = MeetingPlace();
  }
  if (!out.url.empty() || !std::holds_alternative<std::monostate>(out.place)) return out;
  if (!out.launcher.empty() && out.launcher != kPlainEnvironment) {
    return error(hktInvalidUsage,
                 "this process is rank %d of %d of %s, which does not say where its ranks can meet: set MASTER_ADDR to "
                 "the host of rank 0 and MASTER_PORT to a free port there, or HOCKET_INIT to a tcp:// or file:// URL",
                 out.rank, out.nranks, out.launcher.c_str());
  }
  if (!environment("MASTER_ADDR")) return absent("MASTER_ADDR", "the host of rank 0", url);
  return absent("MASTER_PORT", "a free port on the host of rank 0", url);
}

}  // namespace

Result<Identity> parse_url(std::string_view url, const Environment& environment) {
  constexpr const char* kForms = "use env://, tcp://HOST:PORT or file:///PATH";
  const size_t colon = url.find("://");
  if (url.size() > kMaxUrl || colon == std::string_view::npos || url.find('\0') != std::string_view::npos) {
    return error(hktInvalidArgument, "the URL %s does not parse: %s", in_quotes(url).c_str(), kForms);
  }
  const std::string_view scheme = url.substr(0, colon);
  if (scheme == "env") return from_env_scheme(url, environment);
  if (scheme != "tcp" && scheme != "file") {
    return error(hktInvalidArgument, "the scheme %s of the URL %s is unknown: %s", in_quotes(scheme).c_str(),
                 in_quotes(url).c_str(), kForms);
  }
  const size_t question = url.find('?');
  const std::string_view place = url.substr(0, question);
  Result<Parameters> parameters =
      parse_parameters(question == std::string_view::npos ? std::string_view() : url.substr(question + 1), url);
  if (!parameters) return std::move(parameters.error());
  if (scheme == "tcp") {
    std::string_view where = place.substr(colon + 3);
    if (where.size() > 1 && where.back() == '/') where.remove_suffix(1);
    if (const auto parsed = parse_host_port(where); !parsed) {
      return error(hktInvalidArgument, "the URL %s does not parse: %s", in_quotes(url).c_str(),
                   parsed.error().text.c_str());
    }
    Result<Identity> out = complete(url, *parameters, environment);
    if (out) {
      out->url = "tcp://" + std::string(where);
      out->place = MeetingPlace();
    }
    return out;
  }
  const std::string_view path = place.substr(colon + 3);
  if (path.size() < 2 || path[0] != '/' || path.back() == '/') {
    return error(hktInvalidArgument,
                 "the URL %s does not parse: file:// needs the absolute path of a file, as in file:///shared/job1",
                 in_quotes(url).c_str());
  }
  Result<Identity> out = complete(url, *parameters, environment);
  if (out) {
    out->url = std::string(place);
    out->place = MeetingPlace();
  }
  return out;
}

// A launcher that started this process must say the same as the table; the others hear of it. Those of pods count pods,
// of which each may hold several ranks.
static Status check_launcher(const Environment& environment, const Identity& me) {
  HKT_ASSIGN(const std::optional<Claim> claim, find_launcher(environment));
  if (!claim || claim->counts_pods) return {};
  const auto differs = [&](const Number& said, int mine, const char* what) -> Status {
    if (said.value < 0 || said.value == mine) return {};
    return error(
        hktInvalidUsage,
        "rank %d: the rank table says that the %s is %d, but %s is %d: give each process the RANK_ID of its place, "
        "and the job the table of its size, or unset RANK_TABLE_FILE",
        me.rank, what, mine, said.origin.c_str(), said.value);
  };
  HKT_TRY(differs(claim->rank, me.rank, "rank"));
  return differs(claim->nranks, me.nranks, "number of ranks");
}

Result<Identity> identify(const Environment& environment, Deadline deadline) {
  const auto url = environment("HOCKET_INIT");
  if (url || !rank_table::has_rank_table(environment)) return parse_url(url.value_or("env://"), environment);
  HKT_ASSIGN(Identity me, rank_table::identity_from_table(environment, deadline));
  if (Status same = check_launcher(environment, me); !same.ok() && !me.refusal) me.refusal = std::move(same.error());
  return me;
}

uint64_t count_bring_up() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

Status check_rank(int rank, int nranks) {
  if (nranks < 1 || nranks > kMaxRanks) {
    return error(hktInvalidArgument, "the number of ranks is %d: use 1 to %d", nranks, kMaxRanks);
  }
  if (rank < 0 || rank >= nranks) {
    return error(hktInvalidArgument, "the rank is %d of %d: ranks go from 0 to %d", rank, nranks, nranks - 1);
  }
  return {};
}

Result<std::string> host_id() {
  if (const auto given = env::get("HOCKET_HOST_ID")) {
    if (given->size() > 128) {
      return error(hktInvalidUsage, "environment variable HOCKET_HOST_ID has %zu bytes: use at most 128",
                   given->size());
    }
    return *given;
  }
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // Without /proc the host's name is the best there is.
  if (boot.empty() || boot.size() > 64) boot = host_name();
  struct stat net {};
  if (stat("/proc/self/ns/net", &net) != 0) return boot;
  return boot + "/" + std::to_string(net.st_ino);
}

}  // namespace hocket
