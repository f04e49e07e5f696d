#include <algorithm>
#include <cstdio>

#include "commands.h"
#include "hocket/hocket.h"

int main(int argc, char** argv) {
  CLI::App app("Hocket: collective communication. `hocket SUBCOMMAND --help` says more.", "hocket");
  app.set_version_flag("--version", "hocket " + std::to_string(HKT_MAJOR) + "." + std::to_string(HKT_MINOR) + "." +
                                        std::to_string(HKT_PATCH));
  app.require_subcommand(1);
  int status = 0;
  hocket::tool::add_perf(app, status);
  hocket::tool::add_plan(app, status);
  hocket::tool::add_sim(app, status);
  hocket::tool::add_env(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();
    // Name the flag that was probably meant.
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word.rfind("--", 0) != 0 || text.find(word) == std::string::npos) continue;
      std::vector<std::string> known;
      for (const CLI::App* sub : app.get_subcommands())
        for (const CLI::Option* o : sub->get_options())
          for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
      text += hocket::tool::did_you_mean(word, known);
      break;
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::string where;
    for (const CLI::App* sub : app.get_subcommands()) where += " " + sub->get_name();
    return hocket::tool::complain(2, text + "; see `hocket" + where + " --help`");
  }
  return status;
}
