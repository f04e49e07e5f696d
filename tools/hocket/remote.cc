#include "remote.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

namespace hocket::tool {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string own_path() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "hocket";
}

}  // namespace hocket::tool
