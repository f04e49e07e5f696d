#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "bootstrap/rank_table/read.h"
#include "commands.h"
#include "host_list.h"
#include "ranktable_generate.h"
#include "ranktable_merge.h"
#include "ranktable_write.h"

namespace hocket::tool {
namespace {

using nlohmann::ordered_json;
using rank_table::Device;
using rank_table::Kind;
using rank_table::Problem;
using rank_table::RankTable;
using rank_table::Reading;
using rank_table::Server;
using rank_table::Version;

struct Flags {
  std::vector<std::string> files;
  bool json = false;
  int ranks = -1;
  int spares = 0;
  std::string to;
  std::string output;
  std::string hosts;
  bool slurm = false;
  bool mpi = false;
  bool no_probe = false;
  GenerateOptions generate;
};

// The checks that need to know how many ranks the job has.
void check_ranks(Reading& reading, const Flags& flags) {
  const int all = reading.table.size();
  if (reading.initializing || all == 0 || (flags.ranks < 0 && flags.spares == 0)) return;
  const int wanted = (flags.ranks < 0 ? all - flags.spares : flags.ranks) + flags.spares;
  if (flags.spares < all && wanted == all) return;
  const bool spare = flags.ranks >= 0 && wanted < all;
  reading.problems.add(
      spare ? Kind::spare_devices : Kind::rank_size_differs, {}, "",
      {format("%d entries", all), format("%d: %d ranks and %d spares", wanted, wanted - flags.spares, flags.spares),
       spare ? format("start %d ranks, or say that the rest are spare cards: --spares %d", all,
                      all - (wanted - flags.spares))
             : "use the table of this job"});
}

ordered_json as_json(const Problem& problem) {
  return {{"file", one_line(problem.file, 4096)},
          {"line", problem.place.line},
          {"column", problem.place.column},
          {"field", one_line(problem.field)},
          {"severity", rank_table::is_warning(problem.kind) ? "warning" : "error"},
          {"kind", rank_table::name_of(problem.kind)},
          {"hccl_code", rank_table::hccl_code(problem.kind)},
          {"found", problem.found},
          {"expected", problem.expected},
          {"fix", problem.fix}};
}

// What an editor makes of a text that is not UTF-8 is better than no JSON at all.
std::string dumped(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

int lint(const Flags& flags) {
  ordered_json all = ordered_json::array();
  size_t errors = 0;
  for (const std::string& file : flags.files) {
    Reading reading = rank_table::read_file(file);
    check_ranks(reading, flags);
    errors += reading.problems.errors();
    ordered_json entry = {{"file", one_line(file, 4096)},
                          {"errors", reading.problems.errors()},
                          {"warnings", reading.problems.warnings()}};
    entry["status"] = reading.initializing ? "initializing" : reading.problems.errors() > 0 ? "invalid" : "valid";
    if (reading.problems.errors() == 0 && !reading.initializing) {
      entry["version"] = rank_table::name_of(reading.table.version);
      entry["servers"] = reading.table.servers.size();
      entry["ranks"] = reading.table.size();
    }
    entry["problems"] = ordered_json::array();
    for (const Problem& problem : reading.problems.list()) {
      if (!flags.json) std::printf("%s\n", problem.text().c_str());
      entry["problems"].push_back(as_json(problem));
    }
    if (!flags.json && reading.problems.left_out() > 0)
      std::printf("%s: %zu more are not shown\n", file.c_str(), reading.problems.left_out());
    if (!flags.json && reading.initializing)
      std::printf("%s: initializing: whoever fills it has not finished\n", file.c_str());
    if (!flags.json && reading.problems.errors() == 0 && !reading.initializing) {
      std::printf("%s: valid: version %s, %zu servers, %d ranks\n", one_line(file, 4096).c_str(),
                  rank_table::name_of(reading.table.version), reading.table.servers.size(), reading.table.size());
    }
    all.push_back(std::move(entry));
  }
  if (flags.json) std::printf("%s\n", dumped(all).c_str());
  return errors > 0 ? 1 : 0;
}

// A valid table; or its errors on standard error, and nothing.
std::optional<RankTable> table_of(const std::string& file, const std::vector<Kind>& allowed = {}) {
  Reading reading = rank_table::read_file(file);
  bool good = true;
  for (const Problem& problem : reading.problems.list()) {
    const bool harmless = std::find(allowed.begin(), allowed.end(), problem.kind) != allowed.end() ||
                          rank_table::is_warning(problem.kind);
    if (harmless) continue;
    good = false;
    complain(1, problem.text());
  }
  if (reading.initializing) {
    complain(1, file + ": initializing: whoever fills it has not finished [not-completed]");
    good = false;
  }
  if (!good) return std::nullopt;
  return std::move(reading.table);
}

int show(const Flags& flags) {
  int status = 0;
  for (const std::string& file : flags.files) {
    const std::optional<RankTable> table = table_of(file);
    if (!table) {
      status = 1;
      continue;
    }
    std::vector<std::vector<std::string>> rows = {{"server", "host", "device", "device_ip", "local", "rank"}};
    for (const Server& server : table->servers) {
      for (const Device& device : server.devices) {
        const auto host = rank_table::host_address({&server, &device, 0});
        rows.push_back({one_line(server.id, 64), host ? host->host : "-", std::to_string(device.id),
                        device.ip.empty() ? "-" : device.ip, std::to_string(device.local),
                        std::to_string(device.rank)});
      }
    }
    std::vector<size_t> widths(rows[0].size());
    for (const auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::printf("%s: version %s, %zu servers, %d ranks\n", one_line(file, 4096).c_str(),
                rank_table::name_of(table->version), table->servers.size(), table->size());
    for (const auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        // Texts to the left, numbers to the right.
        const bool left = i == 0 || i == 1 || i == 3;
        std::printf(left ? "%s%-*s" : "%s%*s", i == 0 ? "" : "  ", static_cast<int>(widths[i]), row[i].c_str());
      }
      std::printf("\n");
    }
  }
  return status;
}

// Writes a table that was made, having read it again as anybody would.
int put(const RankTable& table, Version version, const Flags& flags) {
  Result<Written> written = write_table(table, version);
  if (!written) return complain(1, written.error().text);
  const Reading again =
      rank_table::parse(written->text, flags.output.empty() ? "the table that was made" : flags.output);
  for (const Problem& problem : again.problems.list()) {
    if (!rank_table::is_warning(problem.kind)) complain(1, problem.text());
  }
  if (again.problems.errors() > 0) return 1;
  for (const std::string& lost : written->lost) complain(0, "not carried over: " + lost);
  if (flags.output.empty()) {
    std::fwrite(written->text.data(), 1, written->text.size(), stdout);
    return std::fflush(stdout) == 0 ? 0 : complain(1, "cannot write the table to the standard output");
  }
  std::FILE* file = std::fopen(flags.output.c_str(), "we");
  if (file == nullptr) return complain(1, sys_error("cannot write %s", flags.output.c_str()).text);
  const bool whole = std::fwrite(written->text.data(), 1, written->text.size(), file) == written->text.size();
  if (std::fclose(file) != 0 || !whole) return complain(1, sys_error("cannot write %s", flags.output.c_str()).text);
  return 0;
}

// By their names, which are all that the option takes.
const std::map<std::string, Version>& versions() {
  static const std::map<std::string, Version> all = {
      {"1.0", Version::v1_0}, {"1.2", Version::v1_2}, {"2.0", Version::v2_0}};
  return all;
}

int convert(const Flags& flags) {
  const std::optional<RankTable> table = table_of(flags.files.front());
  return table ? put(*table, versions().at(flags.to), flags) : 1;
}

int merge_files(const Flags& flags) {
  std::vector<RankTable> tables;
  for (const std::string& file : flags.files) {
    std::optional<RankTable> table = table_of(file, {Kind::duplicate_rank, Kind::rank_gap, Kind::interleaved_ranks});
    if (table) tables.push_back(*std::move(table));
  }
  if (tables.size() < flags.files.size()) return 1;
  Result<RankTable> merged = merge(std::move(tables));
  if (!merged) return complain(1, merged.error().text);
  if (merged->version == Version::groups) {
    return complain(
        1, "template 2 is not written: convert the tables to a version first (`hocket ranktable convert --to 1.0`)");
  }
  return put(*merged, merged->version, flags);
}

int generate_table(Flags flags) {
  if ((flags.hosts.empty() ? 0 : 1) + (flags.slurm ? 1 : 0) + (flags.mpi ? 1 : 0) > 1) {
    return complain(2, "give one of --hosts, --slurm and --mpi; see `hocket ranktable generate --help`");
  }
  Result<std::vector<HostSlots>> hosts = flags.slurm ? slurm_hosts(process_environment())
                                         : flags.mpi ? mpi_hosts(process_environment())
                                         : flags.hosts.empty()
                                             ? Result<std::vector<HostSlots>>(std::vector<HostSlots>())
                                             : parse_hosts(flags.hosts);
  if (!hosts) return complain(hosts.error().code == hktInvalidArgument ? 2 : 1, hosts.error().text);
  flags.generate.hosts = std::move(*hosts);
  flags.generate.probe = !flags.no_probe;
  Result<RankTable> table = generate(flags.generate);
  if (!table) return complain(table.error().code == hktInvalidArgument ? 2 : 1, table.error().text);
  return put(*table, versions().at(flags.to), flags);
}

}  // namespace

void add_ranktable(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("ranktable", "make, check and change rank tables");
  command->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  const auto add = [&](const char* name, const char* text, int (*run)(const Flags&)) {
    CLI::App* sub = command->add_subcommand(name, text);
    sub->callback([flags, run, &status] { status = run(*flags); });
    return sub;
  };
  const auto files = [&](CLI::App* sub, int most) {
    sub->add_option("file", flags->files, "rank table")->required()->expected(1, most);
  };
  const auto output = [&](CLI::App* sub) {
    sub->add_option("-o,--output", flags->output, "file to write, instead of the standard output");
  };
  const auto known = CLI::IsMember(versions());
  constexpr int kMany = 1 << 16;

  CLI::App* sub = add("lint", "every error of the tables, one a line; status 1 if there are any", lint);
  files(sub, kMany);
  sub->add_flag("--json", flags->json, "the same as JSON");
  sub->add_option("--ranks", flags->ranks, "how many ranks the job has")->check(CLI::Range(1, kMany));
  sub->add_option("--spares", flags->spares, "how many entries are spare cards")->check(CLI::Range(0, kMany));

  files(add("show", "servers, devices and ranks", show), kMany);

  sub = add("merge", "one table of several, in the order given, with ranks numbered anew", merge_files);
  files(sub, kMany);
  output(sub);

  sub = add("convert", "the table in another version, saying what that has no place for", convert);
  files(sub, 1);
  sub->add_option("--to", flags->to, "1.0, 1.2 or 2.0")->required()->check(known);
  output(sub);

  sub = add("generate", "a table for this machine, for hosts, or for an allocation",
            [](const Flags& f) { return generate_table(f); });
  sub->add_option("--hosts", flags->hosts, "HOST:RANKS,HOST:RANKS");
  sub->add_flag("--slurm", flags->slurm, "the hosts and tasks of this allocation of Slurm");
  sub->add_flag("--mpi", flags->mpi, "the hosts in the file that an MPI launcher or PBS names");
  sub->add_option("--devices", flags->generate.devices, "of each host: 8, 0-7, [0,8) or 0,2,5");
  sub->add_option("--hccn", flags->generate.hccn, "hccn.conf with the devices' addresses; with several hosts HOST=FILE")
      ->allow_extra_args(false);
  sub->add_flag("--no-probe", flags->no_probe, "do not try whether the hosts answer");
  sub->add_option("--to", flags->to, "version: 1.0, 1.2 or 2.0")->default_val("1.0")->check(known);
  output(sub);
}

}  // namespace hocket::tool
