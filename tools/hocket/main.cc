#include <algorithm>
#include <cstdio>

#include "commands.h"
#include "hocket/hocket.h"

namespace hocket::tool {
namespace {

// The subcommand of a subcommand ... that was being read when the error came; `path` gets their names.
const CLI::App& innermost(const CLI::App& app, std::string& path) {
  const CLI::App* at = &app;
  for (auto subs = at->get_subcommands(); !subs.empty(); subs = at->get_subcommands()) {
    at = subs.front();
    path += " " + at->get_name();
  }
  return *at;
}

// One line: what was wrong with the command line, and the word that was probably meant.
std::string explain(const CLI::App& app, const CLI::ParseError& e) {
  std::string path;
  const CLI::App& at = innermost(app, path);
  std::string text = e.what();
  const std::vector<std::string> unread = app.remaining(true);
  const auto flag = [](const std::string& word) { return word.rfind("--", 0) == 0; };
  if (const auto* required = dynamic_cast<const CLI::RequiredError*>(&e); required != nullptr && !unread.empty() &&
                                                                          unread.front().rfind('-', 0) != 0 &&
                                                                          at.get_require_subcommand_min() > 0) {
    std::vector<std::string> known;
    for (const CLI::App* sub : at.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
    text = "unknown subcommand '" + unread.front() + "'" + did_you_mean(unread.front(), known);
  } else if (const auto word = std::find_if(unread.begin(), unread.end(), flag); word != unread.end()) {
    std::vector<std::string> known;
    for (const CLI::Option* o : at.get_options())
      for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
    text += did_you_mean(*word, known);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + "; see `" + app.get_name() + path + " --help`";
}

}  // namespace
}  // namespace hocket::tool

int main(int argc, char** argv) {
  const std::string version =
      "hocket " + std::to_string(HKT_MAJOR) + "." + std::to_string(HKT_MINOR) + "." + std::to_string(HKT_PATCH);
  int status = 0;
  CLI::App app;
  app.set_version_flag("--version", version);
  if (const std::string collective = hocket::tool::perf_program(argc > 0 ? argv[0] : ""); !collective.empty()) {
    app.name(collective + "_perf");
    app.description("Measures " + collective + " as the program of this name of nccl-tests does, by `hocket perf`.");
    hocket::tool::add_perf_program(app, collective, status);
  } else {
    app.name("hocket");
    app.description("Hocket: collective communication. `hocket SUBCOMMAND --help` says more.");
    app.require_subcommand(1);
    hocket::tool::add_perf(app, status);
    hocket::tool::add_plan(app, status);
    hocket::tool::add_sim(app, status);
    hocket::tool::add_explain(app, status);
    hocket::tool::add_tune(app, status);
    hocket::tool::add_run(app, status);
    hocket::tool::add_doctor(app, status);
    hocket::tool::add_env(app, status);
    hocket::tool::add_types(app, status);
    hocket::tool::add_ranktable(app, status);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    return hocket::tool::complain(2, hocket::tool::explain(app, e));
  }
  return status;
}
