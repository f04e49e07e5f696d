#include "bootstrap/setting.h"

#include <cstdlib>

#include "base/socket.h"
#include "base/text.h"

namespace hocket {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

std::optional<Setting> from_environment(const Environment& environment, const char* name) {
  std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  return Setting{*std::move(value), std::string("environment variable ") + name};
}

Result<int> whole_number(const Setting& setting, int low, int high) {
  const std::optional<int64_t> value = parse_int(setting.text);
  if (!value) {
    return error(hktInvalidUsage, "%s is %s: set it to a whole number from %d to %d", setting.origin.c_str(),
                 in_quotes(setting.text).c_str(), low, high);
  }
  if (*value < low || *value > high) {
    return error(hktInvalidUsage, "%s is %lld: set it to a whole number from %d to %d", setting.origin.c_str(),
                 static_cast<long long>(*value), low, high);
  }
  return static_cast<int>(*value);
}

Result<Number> agreed_number(const Environment& environment, const char* launcher,
                             std::initializer_list<const char*> names, int low, int high) {
  Number out;
  for (const char* name : names) {
    const auto setting = from_environment(environment, name);
    if (!setting) continue;
    HKT_ASSIGN(const int value, whole_number(*setting, low, high));
    if (out.value >= 0 && value != out.value) {
      return error(
          hktInvalidUsage,
          "%s is %d, but %s is %d: both are of %s and must say the same: unset the one that was left over from "
          "another launch",
          out.origin.c_str(), out.value, setting->origin.c_str(), value, launcher);
    }
    if (out.value < 0) out = {value, setting->origin};
  }
  return out;
}

Result<std::optional<std::string>> tcp_place(const Environment& environment, const char* host, const char* port) {
  const auto address = environment(host);
  const auto number_text = environment(port);
  if (!address && !number_text) return std::optional<std::string>();
  if (!address || !number_text) {
    return error(hktInvalidUsage, "environment variable %s is set, but %s is not: they go together",
                 address ? host : port, address ? port : host);
  }
  if (const auto number = parse_int(*number_text); !number || *number < 1 || *number > 65535) {
    return error(hktInvalidUsage, "environment variable %s is %s: set it to a port from 1 to 65535", port,
                 in_quotes(*number_text).c_str());
  }
  // The host may be a bare IPv6 address.
  const bool bare_v6 = address->find(':') != std::string::npos && address->front() != '[';
  const std::string where = (bare_v6 ? "[" + *address + "]" : *address) + ":" + *number_text;
  if (const auto parsed = parse_host_port(where); !parsed) {
    return error(hktInvalidUsage, "environment variable %s is %s: set it to the host name or address of rank 0", host,
                 in_quotes(*address).c_str());
  }
  return std::optional<std::string>("tcp://" + where);
}

}  // namespace hocket
