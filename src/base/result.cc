#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace hocket {
namespace {

std::string vformat(const char* format, va_list args) {
  va_list copy;
  va_copy(copy, args);
  const int n = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string text(n > 0 ? static_cast<size_t>(n) : 0, '\0');
  if (n > 0) std::vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

}  // namespace

std::string format(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = vformat(format, args);
  va_end(args);
  return text;
}

Error error(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Error e{code, vformat(format, args)};
  va_end(args);
  return e;
}

Error sys_error(const char* format, ...) {
  const int saved = errno;
  va_list args;
  va_start(args, format);
  Error e{hktSystemError, vformat(format, args)};
  va_end(args);
  char text[128];
  e.text += ": ";
  e.text += strerror_r(saved, text, sizeof text);
  return e;
}

}  // namespace hocket
