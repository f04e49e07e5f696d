#include "host_list.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "bootstrap/launchers.h"

namespace hocket::tool {
namespace {

constexpr size_t kMaxHosts = 65536;
constexpr int kMaxSlots = 65536;

// Up to the next comma that is in no brackets.
std::string_view take_word(std::string_view& rest) {
  size_t depth = 0;
  size_t at = 0;
  for (; at < rest.size() && (rest[at] != ',' || depth > 0); ++at) {
    if (rest[at] == '[') ++depth;
    if (rest[at] == ']' && depth > 0) --depth;
  }
  const std::string_view word = rest.substr(0, at);
  rest.remove_prefix(std::min(rest.size(), at + 1));
  return word;
}

std::optional<int> count_of(std::string_view text) {
  const std::optional<int64_t> value = parse_int(text);
  if (!value || *value < 1 || *value > kMaxSlots) return std::nullopt;
  return static_cast<int>(*value);
}

// "host", "host:4", "[v6]:4"; an IPv6 address without brackets has no number.
std::optional<HostSlots> one_host(std::string_view word) {
  HostSlots out;
  const size_t colon = word.rfind(':');
  const bool brackets = !word.empty() && word[0] == '[';
  const size_t close = brackets ? word.find(']') : std::string_view::npos;
  if (brackets && close == std::string_view::npos) return std::nullopt;
  const bool number = colon != std::string_view::npos && (brackets ? colon == close + 1 : word.find(':') == colon);
  if (number) {
    const auto slots = count_of(word.substr(colon + 1));
    if (!slots) return std::nullopt;
    out.slots = *slots;
  }
  out.host = std::string(brackets ? word.substr(1, close - 1) : word.substr(0, number ? colon : word.size()));
  if (!is_host_name(out.host)) return std::nullopt;
  return out;
}

// What follows the host on its line of a file; nothing if that does not parse.
std::optional<HostSlots> rest_of_line(std::optional<HostSlots> host, std::istringstream& words) {
  if (!host) return std::nullopt;
  HostSlots out = *std::move(host);
  for (std::string more; words >> more;) {
    const size_t equals = more.find('=');
    if (more.substr(0, equals) != "slots") continue;  // max_slots and others
    const auto slots = equals == std::string::npos ? std::nullopt : count_of(std::string_view(more).substr(equals + 1));
    if (!slots) return std::nullopt;
    out.slots = *slots;
  }
  return out;
}

}  // namespace

bool is_host_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%@";
  return !text.empty() && text.front() != '-' && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<std::vector<HostSlots>> parse_hosts(std::string_view text) {
  std::vector<HostSlots> out;
  std::string_view rest = text;
  do {
    const auto host = one_host(take_word(rest));
    if (!host || out.size() >= kMaxHosts) {
      return error(hktInvalidArgument, "the hosts %s do not parse: write host:ranks,host:ranks, as in a:4,b:4",
                   in_quotes(text).c_str());
    }
    out.push_back(*host);
  } while (!rest.empty());
  return out;
}

Result<std::vector<HostSlots>> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return sys_error("cannot read the file of hosts %s", in_quotes(path).c_str());
  std::vector<HostSlots> out;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const std::optional<HostSlots> found = rest_of_line(one_host(word), words);
    if (!found || out.size() >= kMaxHosts) {
      return error(hktInvalidUsage, "%s:%zu: %s does not parse: a line is `host`, `host:ranks` or `host slots=ranks`",
                   path.c_str(), number, in_quotes(line).c_str());
    }
    const HostSlots& host = *found;
    const auto known = std::find_if(out.begin(), out.end(), [&](const HostSlots& h) { return h.host == host.host; });
    if (known == out.end()) {
      out.push_back(host);
    } else {
      known->slots = std::max(known->slots, 1) + std::max(host.slots, 1);
    }
  }
  if (out.empty()) return error(hktInvalidUsage, "the file of hosts %s names none", in_quotes(path).c_str());
  return out;
}

Result<std::vector<HostSlots>> slurm_hosts(const Environment& environment) {
  // Those of the step are the step's own; the others stay the job's.
  const bool step = environment("SLURM_STEP_NODELIST").has_value();
  const auto nodes = environment(step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST");
  if (!nodes) {
    return error(hktInvalidUsage,
                 "this process is in no allocation of Slurm: SLURM_JOB_NODELIST is not set; run it under salloc, "
                 "sbatch or srun");
  }
  HKT_ASSIGN(const std::vector<std::string> names, expand_host_list(*nodes));
  const auto counts = environment(step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE");
  std::vector<int> slots(names.size(), 0);
  if (counts) {
    HKT_ASSIGN(slots, expand_task_counts(*counts));
    if (slots.size() != names.size()) {
      return error(hktInvalidUsage, "Slurm names %zu nodes (%s), but the tasks of %zu (%s)", names.size(),
                   in_quotes(*nodes).c_str(), slots.size(), in_quotes(*counts).c_str());
    }
  }
  std::vector<HostSlots> out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!counts || slots[i] > 0) out.push_back({names[i], slots[i]});
  }
  return out;
}

Result<std::vector<HostSlots>> mpi_hosts(const Environment& environment) {
  constexpr const char* kFiles[] = {"HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile",
                                    "PRTE_MCA_prte_default_hostfile", "PBS_NODEFILE"};
  std::string names;
  for (const char* name : kFiles) {
    if (const auto path = environment(name)) return read_hostfile(*path);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return error(hktInvalidUsage,
               "no variable names the hosts of an MPI job: set one of %s to a file with a host per line",
               names.c_str());
}

}  // namespace hocket::tool
