// The subcommands of `hocket`. Each adds itself to the program and, when chosen, runs in the callback that CLI11 calls
// at the end of parsing; its exit status goes to `status`: 0 good, 1 failed, 2 wrong usage.
#pragma once

#include <CLI/CLI.hpp>

namespace hocket::tool {

void add_perf(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_sim(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_env(CLI::App& app, int& status);
void add_types(CLI::App& app, int& status);
void add_ranktable(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_tune(CLI::App& app, int& status);

// `hocket` by the name of a program of nccl-tests: the collective that `path` names ("/usr/bin/all_reduce_perf":
// "all_reduce"), "" if it names none; and its flags, which belong to `app` itself.
std::string perf_program(const std::string& path);
void add_perf_program(CLI::App& app, const std::string& collective, int& status);

// Prints "hocket: text" to stderr and returns `code`.
int complain(int code, const std::string& text);
// " (did you mean X?)" for the nearest of `known`, "" if none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace hocket::tool
