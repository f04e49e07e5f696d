// hocket-floors: what this machine can do, measured without any library, by processes that the program forks itself.
#include <cstring>
#include <string_view>

#include "kernels.h"
#include "primitives.h"
#include "serve.h"

namespace {

constexpr char kUsage[] =
    "usage: hocket-floors all|exchange|barrier|memory|slots|cma|tcp [--pin CPU,CPU...] [--ms N] [--json FILE]\n"
    "       hocket-floors serve --np N [--pin CPU,CPU...] [--transport shm|tcp|netns] [--memory private|registered]\n"
    "  all, or one group, prints the machine's primitives: p10 and p50 of short batches, --ms milliseconds each (20).\n"
    "  serve answers the commands of bench/peers/measure.h from standard input with the best hand-written collective.\n"
    "  netns is TCP between the network namespaces of tests/tools/with-netns.sh, within which it runs.\n"
    "  --pin binds rank r to the CPU in place r (again from the first when there are more ranks); without it they are\n"
    "  not bound.\n";

struct Group {
  const char* name;
  bool (*measure)(floors::Bench& bench);
};

constexpr Group kGroups[] = {{"exchange", floors::measure_exchange}, {"barrier", floors::measure_barriers},
                             {"memory", floors::measure_memory},     {"slots", floors::measure_slots},
                             {"cma", floors::measure_cma},           {"tcp", floors::measure_tcp}};

struct Options {
  std::string_view command;
  floors::ServeOptions serve;
  double milliseconds = 20;
  const char* json = nullptr;
};

// False and a line on stderr when the command line is wrong.
bool parse(int argc, char** argv, Options* o) {
  if (argc < 2) return false;
  o->command = argv[1];
  const bool serve = o->command == "serve";
  for (int i = 2; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    bool good = value != nullptr;
    if (!good) {
    } else if (flag == "--pin") {
      good = rk_parse_pins(value, &o->serve.pins) == 0;
    } else if (serve && flag == "--np") {
      o->serve.ranks = std::atoi(value);
      good = o->serve.ranks >= 1 && o->serve.ranks <= RK_MAX;
    } else if (serve && flag == "--transport") {
      const bool netns = std::strcmp(value, "netns") == 0;
      o->serve.tcp = netns || std::strcmp(value, "tcp") == 0;
      good = (o->serve.tcp || std::strcmp(value, "shm") == 0) && (!netns || rk_find_hosts(&o->serve.hosts) == 0);
    } else if (serve && flag == "--memory") {
      o->serve.registered = std::strcmp(value, "registered") == 0;
      good = o->serve.registered || std::strcmp(value, "private") == 0;
    } else if (!serve && flag == "--ms") {
      o->milliseconds = std::atof(value);
      good = o->milliseconds > 0;
    } else if (!serve && flag == "--json") {
      o->json = value;
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "hocket-floors: %s %s: unknown option or bad value\n", argv[i],
                   value != nullptr ? value : "");
      return false;
    }
  }
  return true;
}

bool write_json(const char* path, const std::vector<floors::Row>& rows) {
  FILE* file = std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "hocket-floors: --json %s: %s\n", path, std::strerror(errno));
    return false;
  }
  std::fprintf(file, "[");
  const char* separator = "\n";
  for (const floors::Row& r : rows) {
    std::fprintf(file, "%s  {\"floor\": \"%s\", \"unit\": \"%s\", \"p10\": %.4f, \"p50\": %.4f}", separator,
                 r.name.c_str(), r.unit.c_str(), r.p10, r.p50);
    separator = ",\n";
  }
  std::fprintf(file, "\n]\n");
  if (std::fclose(file) == 0) return true;
  std::fprintf(stderr, "hocket-floors: --json %s: %s\n", path, std::strerror(errno));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, &o)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (o.command == "serve") return floors::serve(o.serve);
  floors::Bench bench(o.serve.pins, o.milliseconds);
  bool known = false, good = true;
  for (const Group& group : kGroups) {
    if (o.command != "all" && o.command != group.name) continue;
    if (!known) std::printf("# loops compiled for %s\n%-58s %10s %10s\n", floors::kernels().name, "", "p10", "p50");
    known = true;
    good = group.measure(bench) && good;
  }
  if (!known) {
    std::fprintf(stderr, "hocket-floors: %s: no such group\n%s", argv[1], kUsage);
    return 2;
  }
  if (o.json != nullptr && !write_json(o.json, bench.rows())) return 1;
  return good ? 0 : 1;
}
