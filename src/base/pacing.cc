#include "base/pacing.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace hocket {
namespace {

constexpr uint32_t kFarUs = 1000;

bool paces(std::string_view control) { return control.rfind("bbr", 0) == 0; }

bool choose(int fd, std::string_view control) {
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(), static_cast<socklen_t>(control.size())) == 0;
}

}  // namespace

void do_not_pace(int fd) {
  char name[16] = "";
  socklen_t size = sizeof name - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 || !paces(name)) return;
  if (!choose(fd, "cubic")) (void)choose(fd, "reno");  // what is not loaded, or not for everybody, is refused
}

void pace_if_far(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (size < offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt || info.tcpi_min_rtt < kFarUs ||
      info.tcpi_min_rtt == UINT32_MAX)  // no sample yet
    return;
  char name[16] = "";
  std::FILE* f = std::fopen("/proc/sys/net/ipv4/tcp_congestion_control", "re");
  if (f == nullptr) return;
  if (std::fscanf(f, "%15s", name) == 1 && paces(name)) (void)choose(fd, name);
  std::fclose(f);
}

}  // namespace hocket
