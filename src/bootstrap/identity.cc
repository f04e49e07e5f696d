#include "bootstrap/identity.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "base/env.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/rank_table/identify.h"

namespace hocket {
namespace {

constexpr size_t kMaxUrl = 4096;

// A value and where it was found, for messages.
struct Setting {
  std::string text;
  std::string origin;  // "environment variable RANK", "rank in the URL 'tcp://...'"
};

struct Parameters {
  std::optional<Setting> rank;
  std::optional<Setting> world_size;
};

std::optional<Setting> from_environment(const Environment& environment, const char* name) {
  std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  return Setting{*std::move(value), std::string("environment variable ") + name};
}

Result<int> whole_number(const Setting& setting, int low, int high) {
  const std::optional<int64_t> value = parse_int(setting.text);
  if (!value) {
    return error(hktInvalidUsage, "%s is %s: set it to a whole number from %d to %d", setting.origin.c_str(),
                 in_quotes(setting.text).c_str(), low, high);
  }
  if (*value < low || *value > high) {
    return error(hktInvalidUsage, "%s is %lld: set it to a whole number from %d to %d", setting.origin.c_str(),
                 static_cast<long long>(*value), low, high);
  }
  return static_cast<int>(*value);
}

// Says so when a launcher that is not supported yet has set its own variables instead of RANK. MPI comes before Slurm:
// mpirun inside a Slurm job leaves both, and only MPI's are right.
std::string launcher_hint(const Environment& environment) {
  struct Launcher {
    const char* name;
    const char* rank;
    const char* size;
  };
  constexpr Launcher kMpi[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               {"an MPI launcher (PMI)", "PMI_RANK", "PMI_SIZE"}};
  constexpr Launcher kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS"};
  const auto text = [](const Launcher& l) {
    return format(
        "this process was started by %s, which is not supported yet: set RANK=$%s and WORLD_SIZE=$%s in each process, "
        "and HOCKET_INIT=tcp://HOST-OF-RANK-0:PORT or HOCKET_INIT=file:///SHARED/PATH",
        l.name, l.rank, l.size);
  };
  for (const Launcher& launcher : kMpi) {
    if (environment(launcher.rank)) return text(launcher);
  }
  // An sbatch script that runs without srun has SLURM_PROCID as well, but is no task: only a step id makes one.
  if (environment("SLURM_STEP_ID")) return text(kSlurm);
  return "";
}

Error absent(const char* name, const char* meaning, std::string_view url, const Environment& environment) {
  const std::string hint = launcher_hint(environment);
  if (!hint.empty()) {
    return error(hktInvalidUsage, "environment variable %s (%s) is not set: %s", name, meaning, hint.c_str());
  }
  const char* also = std::string_view(name) == "RANK"         ? ", or write ?rank=R into the URL"
                     : std::string_view(name) == "WORLD_SIZE" ? ", or write ?world_size=N into the URL"
                                                              : "";
  const bool is_env = url.substr(0, 6) == "env://";
  return error(hktInvalidUsage, "environment variable %s (%s) is not set, but the URL %s needs it: set it%s", name,
               meaning, in_quotes(url).c_str(), is_env ? ", or set HOCKET_INIT to a tcp:// or file:// URL" : also);
}

Result<Identity> complete(std::string_view url, const Parameters& given, const Environment& environment) {
  Identity out;
  const std::optional<Setting> size = given.world_size ? given.world_size : from_environment(environment, "WORLD_SIZE");
  const std::optional<Setting> rank = given.rank ? given.rank : from_environment(environment, "RANK");
  if (!rank) return absent("RANK", "the number of this process in its job", url, environment);
  if (!size) return absent("WORLD_SIZE", "the number of processes of the job", url, environment);
  HKT_ASSIGN(const int n, whole_number(*size, 1, kMaxRanks));
  HKT_ASSIGN(const int r, whole_number(*rank, 0, kMaxRanks - 1));
  if (r >= n) {
    return error(hktInvalidUsage, "%s is %d, but %s is %d: ranks go from 0 to %d", rank->origin.c_str(), r,
                 size->origin.c_str(), n, n - 1);
  }
  out.rank = r;
  out.nranks = n;
  if (const auto local = from_environment(environment, "LOCAL_RANK")) {
    HKT_ASSIGN(const int l, whole_number(*local, 0, kMaxRanks - 1));
    out.local_rank = l;
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
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == std::optional<std::string>("True")) {
    return error(hktInvalidUsage,
                 "this process was started by torchrun, whose store (it holds MASTER_PORT) is not supported yet: set "
                 "HOCKET_INIT=tcp://HOST-OF-RANK-0:PORT with a free port, or HOCKET_INIT=file:///SHARED/PATH");
  }
  HKT_ASSIGN(Identity out, complete(url, Parameters{}, environment));
  const auto address = environment("MASTER_ADDR");
  if (!address) return absent("MASTER_ADDR", "the host of rank 0", url, environment);
  const auto port = environment("MASTER_PORT");
  if (!port) return absent("MASTER_PORT", "a free port on the host of rank 0", url, environment);
  if (const auto number = parse_int(*port); !number || *number < 1 || *number > 65535) {
    return error(hktInvalidUsage, "environment variable MASTER_PORT is %s: set it to a port from 1 to 65535",
                 in_quotes(*port).c_str());
  }
  // MASTER_ADDR may be a bare IPv6 address.
  const bool bare_v6 = address->find(':') != std::string::npos && address->front() != '[';
  const std::string where = (bare_v6 ? "[" + *address + "]" : *address) + ":" + *port;
  if (const auto parsed = parse_host_port(where); !parsed) {
    return error(hktInvalidUsage,
                 "environment variable MASTER_ADDR is %s: set it to the host name or address of rank 0",
                 in_quotes(*address).c_str());
  }
  out.url = "tcp://" + where;
  return out;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

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
    if (out) out->url = "tcp://" + std::string(where);
    return out;
  }
  const std::string_view path = place.substr(colon + 3);
  if (path.size() < 2 || path[0] != '/' || path.back() == '/') {
    return error(hktInvalidArgument,
                 "the URL %s does not parse: file:// needs the absolute path of a file, as in file:///shared/job1",
                 in_quotes(url).c_str());
  }
  Result<Identity> out = complete(url, *parameters, environment);
  if (out) out->url = std::string(place);
  return out;
}

Result<Identity> identify(const Environment& environment, Deadline deadline) {
  const auto url = environment("HOCKET_INIT");
  if (!url && rank_table::has_rank_table(environment)) return rank_table::identity_from_table(environment, deadline);
  return parse_url(url.value_or("env://"), environment);
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
