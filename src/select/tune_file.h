// The tune file: the costs of this machine, as `hocket tune` has measured them. One file per kind of machine in
// $XDG_CACHE_HOME/hocket (~/.cache/hocket). What is in it is hostile: bounds are checked, and an error names file and
// field. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "select/facts.h"

namespace hocket::select {

// What the costs hold for: the model of the CPU, how many there are, their caches, the version of the library.
std::string machine_key();
// The file for machine_key(), "" where there is no home to keep it in.
std::string tune_path();

std::string tune_text(const Costs& costs, std::string_view machine);
// `name` is for errors. An error too if the text is for another machine.
Result<Costs> parse_tune(std::string_view text, std::string_view machine, const std::string& name);

// hktSystemError: there is no such file (errno ENOENT) or it cannot be read.
Result<Costs> read_tune(const std::string& path);
// Makes the folder, and replaces the file as a whole.
Status write_tune(const std::string& path, const Costs& costs);

// The costs that a rank starts from: those of its tune file; without one, or with one that cannot be used, which is a
// warning, the defaults.
Costs costs_of_this_machine(LogId who);

}  // namespace hocket::select
