#include "doctor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "base/log.h"
#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"

namespace hocket::tool {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string mib(uint64_t bytes) { return format("%.0f MiB", static_cast<double>(bytes) / (1 << 20)); }

void look_at_interfaces(std::vector<Finding>& out) {
  const Result<std::vector<Interface>> usable = usable_interfaces();
  if (!usable.ok()) {
    out.push_back({"interfaces", Verdict::fail, usable.error().text, "set HOCKET_SOCKET_IFNAME to one that there is"});
    return;
  }
  std::string list, small, dead;
  bool loopback = true;
  for (const Interface& i : usable.value()) {
    const std::string mtu = first_line("/sys/class/net/" + i.name + "/mtu");
    list += (list.empty() ? "" : ", ") + i.name + " " + i.address.host() + " (MTU " + (mtu.empty() ? "?" : mtu) + ")";
    loopback = loopback && i.address.is_loopback();
    const auto bytes = parse_int(mtu);
    if (bytes && *bytes < 1500 && small.find(i.name) == std::string::npos) small += " " + i.name;
    if (!i.carrier && dead.find(i.name) == std::string::npos) dead += " " + i.name;
  }
  const bool chosen = env::get("HOCKET_SOCKET_IFNAME").has_value();
  out.push_back({"interfaces", loopback && !chosen ? Verdict::warn : Verdict::ok, list,
                 loopback && !chosen ? "only loopback is up: ranks on other hosts cannot reach this one" : ""});
  if (!dead.empty())
    out.push_back({"carrier", Verdict::warn, "nothing is at the other end of" + dead,
                   "leave them out, for example HOCKET_SOCKET_IFNAME=^" + dead.substr(1, dead.find(' ', 1) - 1)});
  out.push_back({"mtu", small.empty() ? Verdict::ok : Verdict::warn,
                 small.empty() ? "no interface is below 1500 bytes" : "less than 1500 bytes on" + small,
                 small.empty() ? "" : "raise it on both ends (ip link set dev NAME mtu 1500, or 9000 where all can)"});
}

void look_at_own_name(std::vector<Finding>& out) {
  const std::string name = host_name();
  Result<std::vector<Address>> found = resolve({name, 1}, Family::any);
  if (!found) {
    out.push_back({"host name", Verdict::warn, found.error().text,
                   "name hosts by address (MASTER_ADDR, --hosts), or add the name to /etc/hosts"});
    return;
  }
  const bool loopback = std::all_of(found->begin(), found->end(), [](const Address& a) { return a.is_loopback(); });
  out.push_back({"host name", loopback ? Verdict::warn : Verdict::ok, name + " is " + found->front().host(),
                 loopback
                     ? "others must not be given this name's address: take it out of the 127.0.* line of /etc/hosts, "
                       "or name this host by its address"
                     : ""});
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(static_cast<unsigned long long>(limit));
}

void look_at_limits(std::vector<Finding>& out) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  // A rank needs about one descriptor for each rank that it is connected to.
  const Verdict v = files.rlim_cur < 256 ? Verdict::fail : files.rlim_cur < 1024 ? Verdict::warn : Verdict::ok;
  out.push_back({"descriptors", v,
                 "ulimit -n is " + limit_text(files.rlim_cur) + ", at most " + limit_text(files.rlim_max),
                 v == Verdict::ok ? "" : "`ulimit -n 4096` before the job, and limits.conf for the maximum"});
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const bool little = locked.rlim_cur < (rlim_t{64} << 20);
  out.push_back(
      {"locked memory", little ? Verdict::warn : Verdict::ok, "ulimit -l is " + limit_text(locked.rlim_cur) + " bytes",
       little ? "`ulimit -l unlimited` where devices read memory directly; TCP and shared memory need none" : ""});
}

void look_at_ports(std::vector<Finding>& out) {
  const Result<PortRanges> ports = port_ranges();
  if (!ports.ok()) {
    out.push_back({"ports", Verdict::fail, ports.error().text, "set it to ports such as 20000-20099"});
    return;
  }
  if (ports.value().ranges.empty()) {
    out.push_back({"ports", Verdict::ok, "any that is free (HOCKET_PORT_RANGE is not set)", ""});
    return;
  }
  const OutgoingPorts outgoing = OutgoingPorts::read();
  size_t shared = 0;
  for (size_t i = 0; i < ports.value().size(); ++i) shared += outgoing.has(ports.value().port(i)) ? 1 : 0;
  const std::string found = format("%zu of %s", ports.value().size(), ports.value().origin.c_str());
  if (shared == 0) {
    out.push_back({"ports", Verdict::ok, found, ""});
    return;
  }
  out.push_back(
      {"ports", Verdict::warn,
       found + format("; the system takes %zu of them for outgoing connections (%s)", shared, outgoing.text().c_str()),
       "choose others, or reserve them: sysctl net.ipv4.ip_local_reserved_ports"});
}

void look_at_shared_memory(std::vector<Finding>& out) {
  const std::string kind = env::get("HOCKET_SHM").value_or("memfd");
  const Verdict bad = kind == "devshm" ? Verdict::fail : Verdict::warn;
  const std::string fix = kind == "devshm"
                              ? "free it, mount it larger (docker run --shm-size=1g), or set HOCKET_SHM=memfd"
                              : "free it, or keep HOCKET_SHM=memfd, which needs none of it";
  struct statvfs fs {};
  if (statvfs("/dev/shm", &fs) != 0) {
    out.push_back({"/dev/shm", bad, std::strerror(errno), fix});
    return;
  }
  const uint64_t size = uint64_t{fs.f_blocks} * fs.f_frsize, left = uint64_t{fs.f_bavail} * fs.f_frsize;
  std::string path = "/dev/shm/hocket-doctor.XXXXXX";
  const int fd = mkstemp(path.data());
  const int refused = fd < 0 ? errno : 0;
  if (fd >= 0) {
    close(fd);
    unlink(path.c_str());
  }
  const uint64_t least = uint64_t{64} << 20;
  std::string found = mib(left) + " of " + mib(size) + " are free";
  if (refused != 0) found += std::string(", and no file can be made: ") + std::strerror(refused);
  const bool good = refused == 0 && left >= least;
  out.push_back({"/dev/shm", good ? Verdict::ok : bad, found, good ? "" : fix});
}

// One child reads the memory of another, as ranks do.
void look_at_cross_memory(std::vector<Finding>& out) {
  static volatile uint32_t word = 0x686b7401;
  const pid_t one = fork();
  if (one == 0) {
    for (;;) pause();
  }
  const pid_t two = fork();
  if (two == 0) {
    uint32_t copy = 0;
    iovec mine{&copy, sizeof copy};
    iovec theirs{const_cast<uint32_t*>(&word), sizeof word};
    const ssize_t n = process_vm_readv(one, &mine, 1, &theirs, 1, 0);
    _exit(n == sizeof copy && copy == word ? 0 : errno);
  }
  int status = 0;
  waitpid(two, &status, 0);
  kill(one, SIGKILL);
  waitpid(one, nullptr, 0);
  const int number = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  out.push_back({"cross memory", number == 0 ? Verdict::ok : Verdict::warn,
                 number == 0 ? "a process may read another's memory (process_vm_readv)"
                             : std::string("a process may not read another's memory: ") + std::strerror(number) +
                                   (scope.empty() ? "" : " (yama's ptrace_scope is " + scope + ")"),
                 number == 0
                     ? ""
                     : "sysctl kernel.yama.ptrace_scope=0, or docker run --cap-add SYS_PTRACE; without it data is "
                       "copied twice"});
}

void look_at_cpus(std::vector<Finding>& out) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  // The tightest of all groups that this process is in.
  std::string group = first_line("/proc/self/cgroup");
  group = group.rfind("0::", 0) == 0 ? group.substr(3) : "/";
  double quota = usable;
  for (;;) {
    std::istringstream text(first_line("/sys/fs/cgroup" + group + "/cpu.max"));
    double most = 0, period = 0;
    if (text >> most >> period && period > 0) quota = std::min(quota, most / period);
    if (group.size() <= 1) break;
    group.erase(std::max<size_t>(group.rfind('/'), 0));
  }
  const bool less = quota < usable;
  out.push_back({"cpus", less ? Verdict::warn : Verdict::ok,
                 less ? format("%d CPUs, but the group's quota is %.1f", usable, quota)
                      : format("%d CPUs, no quota below", usable),
                 less ? "start no more ranks than the quota has CPUs, or raise it (docker run --cpus, cpu.max)" : ""});
}

void look_at_huge_pages(std::vector<Finding>& out) {
  const std::string shared = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  out.push_back(
      {"huge pages", Verdict::ok, shared.empty() ? "the kernel has none" : "for shared memory: " + shared, ""});
}

// Does anybody hold a lock of a rendezvous file?
bool in_use(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return true;  // not ours to judge
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool used = fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  close(fd);
  return used;
}

void look_at_leftovers(std::vector<Finding>& out) {
  std::vector<std::string> files;
  if (const auto init = env::get("HOCKET_INIT"); init && init->rfind("file://", 0) == 0)
    files.push_back(init->substr(7, init->find('?') - 7));
  const char* tmp = std::getenv("TMPDIR");
  const std::string folder = tmp != nullptr && *tmp != '\0' ? tmp : "/tmp";
  if (DIR* dir = opendir(folder.c_str()); dir != nullptr) {
    for (const dirent* e = readdir(dir); e != nullptr; e = readdir(dir))
      if (std::string(e->d_name).rfind("hocket.", 0) == 0) files.push_back(folder + "/" + e->d_name + "/meet");
    closedir(dir);
  }
  std::string stale;
  for (const std::string& file : files)
    if (access(file.c_str(), F_OK) == 0 && !in_use(file)) stale += " " + file;
  if (DIR* dir = opendir("/dev/shm"); dir != nullptr) {
    for (const dirent* e = readdir(dir); e != nullptr; e = readdir(dir)) {
      const std::string path = std::string("/dev/shm/") + e->d_name;
      struct stat what {};
      // A segment is taken out of the folder as soon as all ranks have it: one that is a minute old belongs to nobody.
      if (std::string(e->d_name).rfind("hocket", 0) == 0 && stat(path.c_str(), &what) == 0 &&
          what.st_mtime + 60 < time(nullptr))
        stale += " " + path;
    }
    closedir(dir);
  }
  out.push_back({"leftovers", stale.empty() ? Verdict::ok : Verdict::warn,
                 stale.empty() ? "no file of a job that has ended" : "of jobs that have ended:" + stale,
                 stale.empty() ? "" : "rm" + stale});
}

}  // namespace

std::vector<Finding> look_at_this_machine() {
  std::vector<Finding> out;
  look_at_interfaces(out);
  look_at_own_name(out);
  look_at_limits(out);
  look_at_ports(out);
  look_at_shared_memory(out);
  look_at_cross_memory(out);
  look_at_cpus(out);
  look_at_huge_pages(out);
  look_at_leftovers(out);
  return out;
}

}  // namespace hocket::tool
