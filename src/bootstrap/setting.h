// Numbers and places out of environment variables, with errors that name the variable. Any thread, provided nobody
// calls setenv at the same time.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hocket {

// The environment as seen by bring-up: a variable's value, nothing if unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// No job is larger: a bound for what is allocated from numbers that come from outside.
constexpr int kMaxRanks = 1 << 20;

// A value and where it was found, for messages.
struct Setting {
  std::string text;
  std::string origin;  // "environment variable RANK", "rank in the URL 'tcp://...'"
};

std::optional<Setting> from_environment(const Environment& environment, const char* name);
Result<int> whole_number(const Setting& setting, int low, int high);

// A number that may stand in several variables at once.
struct Number {
  int value = -1;      // -1: none of them is set
  std::string origin;  // "environment variable SLURM_PROCID"
};
// All of `names` that are set must say the same: the error shows both values and variables, and says that they come
// from `launcher`.
Result<Number> agreed_number(const Environment& environment, const char* launcher,
                             std::initializer_list<const char*> names, int low, int high);

// "tcp://HOST:PORT" out of a host (or bare IPv6 address) and a port; nothing if neither is set.
Result<std::optional<std::string>> tcp_place(const Environment& environment, const char* host, const char* port);

}  // namespace hocket
