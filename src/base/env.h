// The one table of HOCKET_* variables. docs/environment.md is generated from it (`hocket env --markdown`).
// Values are read from the environment at each call (bring-up only; never on a steady-state path). Any thread, provided
// nobody calls setenv at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hocket::env {

struct Variable {
  const char* name;      // "HOCKET_INIT"
  const char* fallback;  // its default as text, "" if none
  const char* values;    // what it accepts, for people
  const char* meaning;   // one sentence
};

std::span<const Variable> table();

// The value, if set and not empty. `name` must be in the table (checked by an assertion).
std::optional<std::string> get(std::string_view name);
// Set, and empty: for those variables whose absence must not be a slip.
bool set_and_empty(std::string_view name);
// A whole number within [low, high]; an error names the variable, the value found and the range.
Result<int64_t> get_int(std::string_view name, int64_t fallback, int64_t low, int64_t high);
// One of `choices`; an error lists them.
Result<std::string> get_choice(std::string_view name, std::string_view fallback,
                               std::span<const std::string_view> choices);
// Seconds as a decimal number ("2.5"), in ms.
Result<int64_t> get_seconds_ms(std::string_view name, int64_t fallback_ms);
// Warns once per process for each HOCKET_* variable that is set but not in the table, with the nearest name.
void warn_unknown();

}  // namespace hocket::env
