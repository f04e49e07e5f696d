#include "bootstrap/launchers.h"

#include <algorithm>

#include "base/network_env.h"
#include "base/text.h"

namespace hocket {
namespace {

using Found = Result<std::optional<Claim>>;
constexpr int kMost = kMaxRanks - 1;
constexpr int kTorchPort = 29500;  // torch.distributed's default, where nobody says another

std::optional<Claim> none() { return std::nullopt; }

bool is_set(const Environment& environment, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return environment(name).has_value(); });
}

// Rank and size, from the first of the variables; contradictions are errors.
Result<Claim> claim(const Environment& environment, const char* launcher, std::initializer_list<const char*> rank,
                    std::initializer_list<const char*> nranks, std::initializer_list<const char*> local) {
  Claim out;
  out.launcher = launcher;
  HKT_ASSIGN(out.rank, agreed_number(environment, launcher, rank, 0, kMost));
  HKT_ASSIGN(out.nranks, agreed_number(environment, launcher, nranks, 1, kMaxRanks));
  HKT_ASSIGN(const Number l, agreed_number(environment, launcher, local, 0, kMost));
  out.local_rank = l.value;
  if (out.rank.value >= 0 && out.nranks.value >= 0 && out.rank.value >= out.nranks.value) {
    return error(hktInvalidUsage, "%s is %d, but %s is %d: ranks go from 0 to %d", out.rank.origin.c_str(),
                 out.rank.value, out.nranks.origin.c_str(), out.nranks.value, out.nranks.value - 1);
  }
  return out;
}

// MASTER_ADDR and MASTER_PORT, if set, as the place of a launcher that has none of its own.
Status take_master(const Environment& environment, Claim& claim) {
  HKT_ASSIGN(const std::optional<std::string> place, tcp_place(environment, "MASTER_ADDR", "MASTER_PORT"));
  if (place) claim.place = *place;
  return {};
}

// torchrun, or whoever else sets RANK and WORLD_SIZE.
Found torchrun(const Environment& environment) {
  if (!environment("RANK") || !environment("WORLD_SIZE")) return none();
  const bool torch = environment("TORCHELASTIC_RUN_ID").has_value();
  HKT_ASSIGN(Claim out,
             claim(environment, torch ? "torchrun" : kPlainEnvironment, {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}));
  if (environment("TORCHELASTIC_USE_AGENT_STORE") != std::optional<std::string>("True")) {
    if (is_set(environment, {"MASTER_ADDR"}) && is_set(environment, {"MASTER_PORT"})) {
      HKT_TRY(take_master(environment, out));
    }
    return std::optional(std::move(out));
  }
  // MASTER_PORT is the agent's: nobody can listen there. All ranks are clients of its store.
  HKT_ASSIGN(const std::optional<std::string> where, tcp_place(environment, "MASTER_ADDR", "MASTER_PORT"));
  if (!where) {
    return error(hktInvalidUsage,
                 "TORCHELASTIC_USE_AGENT_STORE is True, but MASTER_ADDR and MASTER_PORT, where torchrun's agent serves "
                 "its store, are not set: hand them on to the process");
  }
  TorchPlace place;
  HKT_ASSIGN(place.store, parse_host_port(std::string_view(*where).substr(6)));
  place.job = environment("TORCHELASTIC_RUN_ID").value_or("none").substr(0, 128) + "/" +
              environment("TORCHELASTIC_RESTART_COUNT").value_or("0").substr(0, 16);
  out.place = std::move(place);
  return std::optional(std::move(out));
}

Found horovod(const Environment& environment) {
  if (!environment("HOROVOD_RANK")) return none();
  HKT_ASSIGN(Claim out, claim(environment, "Horovod", {"HOROVOD_RANK"}, {"HOROVOD_SIZE"}, {"HOROVOD_LOCAL_RANK"}));
  HKT_ASSIGN(const std::optional<std::string> where,
             tcp_place(environment, "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"));
  if (where) {
    HorovodPlace place;
    HKT_ASSIGN(place.server, parse_host_port(std::string_view(*where).substr(6)));
    out.place = std::move(place);
    return std::optional(std::move(out));
  }
  HKT_TRY(take_master(environment, out));
  return std::optional(std::move(out));
}

Found msrun(const Environment& environment) {
  const auto role = environment("MS_ROLE");
  if (!role) return none();
  if (*role != "MS_WORKER") {
    return error(hktInvalidUsage,
                 "environment variable MS_ROLE is %s: this process is msrun's scheduler or server and no rank of the "
                 "job: make no communicator in it",
                 in_quotes(*role).c_str());
  }
  // RANK_ID is there with several nodes only; MS_NODE_ID then is the same.
  HKT_ASSIGN(Claim out, claim(environment, "msrun", {"RANK_ID", "MS_NODE_ID"}, {"MS_WORKER_NUM", "RANK_SIZE"}, {}));
  HKT_ASSIGN(const std::optional<std::string> where, tcp_place(environment, "MS_SCHED_HOST", "MS_SCHED_PORT"));
  if (where) {
    // The scheduler's port is MindSpore's; rank 0 is on its host and takes the next one.
    HKT_ASSIGN(const HostPort scheduler, parse_host_port(std::string_view(*where).substr(6)));
    if (scheduler.port == 65535) {
      return error(hktInvalidUsage,
                   "environment variable MS_SCHED_PORT is 65535: rank 0 takes the port behind it: use a lower one");
    }
    out.place = where->substr(0, where->rfind(':') + 1) + std::to_string(scheduler.port + 1);
  }
  return std::optional(std::move(out));
}

Result<MeetingPlace> pmi_place(const Environment& environment) {
  PmiPlace place;
  if (const auto fd = from_environment(environment, "PMI_FD")) {
    HKT_ASSIGN(place.fd, whole_number(*fd, 0, 1 << 20));
    return MeetingPlace(place);
  }
  const auto port = environment("PMI_PORT");
  if (!port) return MeetingPlace();
  auto server = parse_host_port(*port);
  if (!server) {
    return error(hktInvalidUsage, "environment variable PMI_PORT is %s: expected is HOST:PORT of the process manager",
                 in_quotes(*port).c_str());
  }
  place.server = *server;
  const auto id = from_environment(environment, "PMI_ID");
  if (!id) return error(hktInvalidUsage, "environment variable PMI_PORT is set, but PMI_ID is not: they go together");
  HKT_ASSIGN(place.id, whole_number(*id, 0, kMost));
  return MeetingPlace(std::move(place));
}

// Open MPI and the process managers of the others: one level.
Found mpi(const Environment& environment) {
  const bool open_mpi = is_set(environment, {"OMPI_COMM_WORLD_RANK"});
  const bool pmix = is_set(environment, {"PMIX_RANK"}) && is_set(environment, {"PMIX_NAMESPACE"});
  const bool pmi = is_set(environment, {"PMI_RANK", "PMI_PORT", "PMI_FD"});
  if (!open_mpi && !pmix && !pmi) return none();
  const char* name = open_mpi ? "Open MPI" : pmix ? "PMIx" : "PMI";
  HKT_ASSIGN(Claim out, claim(environment, open_mpi && pmi ? "one MPI launcher" : name,
                              {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}));
  out.launcher = name;
  if (pmix) {
    out.place = PmixPlace{};
  } else if (pmi) {
    HKT_ASSIGN(out.place, pmi_place(environment));
  }
  return std::optional(std::move(out));
}

// FNV-1a: the same on every machine.
uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// A step tells no address, and with -m arbitrary rank 0 may be on any of its nodes: it is searched for. Ports are
// those that --resv-ports reserved, or a few that follow from the step's number, of HOCKET_PORT_RANGE if that is set.
Result<MeetingPlace> slurm_place(const Environment& environment, const std::string& step) {
  SearchPlace place;
  place.job = "Slurm step " + step;
  place.nonce = hash("hocket/" + environment("SLURM_CLUSTER_NAME").value_or("") + "/" + step) | 1;
  const auto add = [&](const char* name) -> Status {
    const auto list = environment(name);
    if (!list) return {};
    Result<std::vector<std::string>> hosts = expand_host_list(*list);
    if (!hosts) {
      return error(hktInvalidUsage, "environment variable %s: %s", name, hosts.error().text.c_str());
    }
    for (std::string& host : *hosts) place.hosts.push_back(std::move(host));
    return {};
  };
  HKT_TRY(add("SLURM_STEP_NODELIST"));
  // A step of several components knows its own nodes only; rank 0 is in the first.
  for (const char* name : {"SLURM_JOB_NODELIST_HET_GROUP_0", "SLURM_JOB_NODELIST"}) HKT_TRY(add(name));
  std::vector<std::string> unique;
  for (std::string& host : place.hosts) {
    if (std::find(unique.begin(), unique.end(), host) == unique.end()) unique.push_back(std::move(host));
  }
  place.hosts = std::move(unique);
  HKT_ASSIGN(PortRanges ports, port_ranges(environment));
  bool reserved = false;
  if (const auto list = environment("SLURM_STEP_RESV_PORTS"); list && ports.ranges.empty()) {
    if (auto ranges = parse_port_ranges(*list)) ports.ranges = *std::move(ranges);
    reserved = !ports.ranges.empty();
  }
  // Below the ports of outgoing connections.
  if (ports.ranges.empty()) ports.ranges = {{20000, 31999}};
  constexpr size_t kEach = 4;
  const size_t count = ports.size();
  const size_t start = reserved ? 0 : hash(step) % count / kEach * kEach;
  for (size_t i = 0; i < std::min(kEach, count); ++i) place.ports.push_back(ports.port((start + i) % count));
  return MeetingPlace(std::move(place));
}

// A task is who has a step: a batch script has SLURM_PROCID=0 as well.
Found slurm(const Environment& environment) {
  if (!environment("SLURM_STEP_ID") || !environment("SLURM_PROCID")) return none();
  HKT_ASSIGN(Claim out,
             claim(environment, "Slurm", {"SLURM_PROCID"}, {"SLURM_NTASKS", "SLURM_NPROCS"}, {"SLURM_LOCALID"}));
  HKT_TRY(take_master(environment, out));
  if (!std::holds_alternative<std::monostate>(out.place)) return std::optional(std::move(out));
  const std::string step = environment("SLURM_JOB_ID").value_or("?") + "." + environment("SLURM_STEP_ID").value_or("?");
  HKT_ASSIGN(out.place, slurm_place(environment, step));
  return std::optional(std::move(out));
}

// Pods of an indexed job, one process each. Kubeflow and Volcano's PyTorch plug-in set RANK and WORLD_SIZE and are
// found as such.
Found kubernetes(const Environment& environment) {
  if (is_set(environment, {"VC_TASK_INDEX", "VK_TASK_INDEX", "MA_TASK_INDEX"})) {
    const bool model_arts = is_set(environment, {"MA_NUM_HOSTS"});
    HKT_ASSIGN(Claim out, claim(environment, model_arts ? "ModelArts" : "Volcano",
                                {"VC_TASK_INDEX", "VK_TASK_INDEX", "MA_TASK_INDEX"},
                                {"MA_NUM_HOSTS", "VC_WORKER_NUM", "WORLD_SIZE"}, {}));
    out.counts_pods = true;
    if (is_set(environment, {"VC_MASTER_HOSTS"})) {
      return error(hktInvalidUsage,
                   "this Volcano job has the tasks master and worker, and VC_TASK_INDEX counts in each from 0: use "
                   "Volcano's pytorch plug-in, or set RANK and WORLD_SIZE");
    }
    HKT_TRY(take_master(environment, out));
    if (const auto hosts = environment("VC_WORKER_HOSTS"); hosts && std::holds_alternative<std::monostate>(out.place)) {
      const std::string first = hosts->substr(0, hosts->find(','));
      const std::string where = first + ":" + std::to_string(kTorchPort);
      if (const auto parsed = parse_host_port(where); !parsed) {
        return error(hktInvalidUsage, "environment variable VC_WORKER_HOSTS is %s: expected are host names",
                     in_quotes(*hosts).c_str());
      }
      out.place = "tcp://" + where;
    }
    return std::optional(std::move(out));
  }
  if (!environment("JOB_COMPLETION_INDEX")) return none();
  HKT_ASSIGN(Claim out, claim(environment, "a Kubernetes indexed job", {"JOB_COMPLETION_INDEX"}, {"WORLD_SIZE"}, {}));
  out.counts_pods = true;
  HKT_TRY(take_master(environment, out));
  return std::optional(std::move(out));
}

// RANK or WORLD_SIZE may be set alone, for another program's sake: then it must at least say the same.
Status check_alone(const Environment& environment, const Claim& taken) {
  const auto differs = [&](const char* name, const Number& number) -> Status {
    const auto setting = from_environment(environment, name);
    if (!setting || number.value < 0) return {};
    HKT_ASSIGN(const int value, whole_number(*setting, 0, kMaxRanks));
    if (value == number.value) return {};
    return error(hktInvalidUsage, "%s is %d, but %s is %d: set both RANK and WORLD_SIZE, or neither",
                 setting->origin.c_str(), value, number.origin.c_str(), number.value);
  };
  if (environment("RANK") && environment("WORLD_SIZE")) return {};
  HKT_TRY(differs("RANK", taken.rank));
  return differs("WORLD_SIZE", taken.nranks);
}

std::string in_words(const Claim& claim) {
  std::string out = claim.launcher;
  if (claim.rank.value < 0) return out;
  out += format(" (rank %d", claim.rank.value);
  if (claim.nranks.value >= 0) out += format(" of %d", claim.nranks.value);
  return out + ": " + claim.rank.origin + ")";
}

}  // namespace

Result<std::optional<Claim>> find_launcher(const Environment& environment) {
  std::optional<Claim> taken;
  std::string others;
  for (const auto look : {torchrun, horovod, msrun, mpi, slurm, kubernetes}) {
    Result<std::optional<Claim>> found = look(environment);
    if (!found) {
      // What an outer launcher has left in disorder is of no matter to the inner one.
      if (!taken) return std::move(found.error());
      continue;
    }
    std::optional<Claim>& offered = *found;
    if (!offered) continue;
    Claim& claim = *offered;
    if (!taken) {
      taken = std::move(claim);
      continue;
    }
    others += (others.empty() ? "" : ", ") + in_words(claim);
    // RANK and WORLD_SIZE copied from this launcher's: it knows where the ranks meet.
    if (std::holds_alternative<std::monostate>(taken->place) && claim.rank.value == taken->rank.value &&
        claim.nranks.value == taken->nranks.value) {
      taken->place = std::move(claim.place);
      if (taken->local_rank < 0) taken->local_rank = claim.local_rank;
    }
  }
  if (!taken) return none();
  HKT_TRY(check_alone(environment, *taken));
  taken->story = "launched by " + in_words(*taken) + (others.empty() ? "" : "; not used: ") + others;
  return taken;
}

}  // namespace hocket
