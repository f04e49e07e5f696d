#include "transport/shm/group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>
#include <system_error>
#include <vector>

#include "base/thread_annotations.h"

namespace hocket::shm {
namespace {

// What crosses the socket: one request, one answer with the descriptor attached. Native byte order: both ends share a
// kernel.
struct Request {
  static constexpr uint64_t kMagic = 0x31'51'52'53'54'4b'48'00;
  uint64_t magic = kMagic;
  uint64_t nonce = 0;
};
struct Answer {
  static constexpr uint64_t kMagic = 0x31'4e'41'53'54'4b'48'00;
  uint64_t magic = kMagic;
};

// --- The segments of this process.
// A process may map a segment once and hold one descriptor of it (segment.h says why), though the ranks in it know
// nothing of one another. That is a fact about the process, so the table is one per process as well.
struct Key {
  uint64_t nonce;
  int leader;
  friend bool operator<(const Key& a, const Key& b) {
    return a.nonce != b.nonce ? a.nonce < b.nonce : a.leader < b.leader;
  }
};

class Registry {
 public:
  static Registry& of_process() {
    static Registry registry;
    return registry;
  }
  std::shared_ptr<Segment> find(const Key& key) HKT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = segments_.find(key);
    return it == segments_.end() ? nullptr : it->second.lock();
  }
  void put(const Key& key, const std::shared_ptr<Segment>& segment) HKT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (auto it = segments_.begin(); it != segments_.end();)
      it = it->second.expired() ? segments_.erase(it) : std::next(it);
    segments_[key] = segment;
  }
  // Held by a rank from its look into the table until its segment is in there: two ranks of a process must not both ask
  // the leader. Ranks of other groups wait as well, for the short time an answer takes.
  Mutex attaching;
  // The same for segments in a file that this process has already: nobody waits for long.
  Mutex mapping;

 private:
  Mutex mutex_;
  std::map<Key, std::weak_ptr<Segment>> segments_ HKT_GUARDED_BY(mutex_);
};

// The socket's name is public (/proc/net/unix), the nonce is not: the name holds no more than 32 bits about it.
struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};
Name name_of(uint64_t nonce, int leader) {
  uint64_t x = nonce;
  for (int i = 0; i < 2; ++i) {
    x ^= x >> 31;
    x *= 0x9e37'79b9'7f4a'7c15;
    x ^= nonce >> 17;
  }
  Name name;
  name.address.sun_family = AF_UNIX;  // sun_path[0] stays 0: the abstract namespace
  const std::string text = format("hocket-%08x-%d", static_cast<unsigned>(x >> 32), leader);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

union FdMessage {  // room for one descriptor, aligned as the kernel wants it
  cmsghdr align;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

bool send_descriptor(int socket, int fd) {
  Answer answer;
  iovec part{&answer, sizeof answer};
  FdMessage control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof answer);
}

Result<Fd> receive_descriptor(int socket, int leader) {
  Answer answer;
  iovec part{&answer, sizeof answer};
  FdMessage control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) return sys_error("shared memory: no answer from rank %d", leader);
  Fd fd;
  const cmsghdr* c = CMSG_FIRSTHDR(&message);
  if (c != nullptr && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
      c->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(c), sizeof received);
    fd.reset(received);
  }
  if (n == 0)
    return error(hktRemoteError, "shared memory: rank %d has refused (another job, or it has given up)", leader);
  if (n != static_cast<ssize_t>(sizeof answer) || answer.magic != Answer::kMagic)
    return error(hktRemoteError, "shared memory: rank %d has answered something else than a segment", leader);
  if (!fd) return error(hktSystemError, "shared memory: no descriptor came from rank %d (ulimit -n too low?)", leader);
  return fd;
}

Result<Fd> connect_to_leader(const GroupConfig& config, Deadline deadline) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return descriptor_error("shared memory: socket");
  const Name name = name_of(config.nonce, config.ranks[0]);
  while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNREFUSED)
      return error(hktRemoteError, "shared memory: nobody hands out the segment of rank %d in this network namespace",
                   config.ranks[0]);
    if (errno != EAGAIN) return sys_error("shared memory: cannot reach rank %d", config.ranks[0]);
    // EAGAIN: its queue is full of other ranks; a Unix socket does not tell when there is room.
    if (deadline.passed()) return error(hktTimeout, "shared memory: rank %d has no time for us", config.ranks[0]);
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
  if (!same_user(socket.get()))  // before the nonce is told
    return error(hktRemoteError, "shared memory: the segment of rank %d is offered by another user", config.ranks[0]);
  return socket;
}

Result<std::shared_ptr<Segment>> fetch(const GroupConfig& config, Deadline deadline) {
  HKT_ASSIGN(Fd socket, connect_to_leader(config, deadline));
  Request request;
  request.nonce = config.nonce;
  if (send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request))
    return sys_error("shared memory: cannot ask rank %d for its segment", config.ranks[0]);
  HKT_ASSIGN(const bool ready, wait_ready(socket.get(), POLLIN, deadline));
  if (!ready)
    return error(hktTimeout, "shared memory: rank %d has not handed out its segment in time", config.ranks[0]);
  HKT_ASSIGN(Fd fd, receive_descriptor(socket.get(), config.ranks[0]));
  return Segment::map(std::move(fd), config);
}

Result<std::shared_ptr<Segment>> shared_segment(const GroupConfig& config, Deadline deadline) {
  Registry& registry = Registry::of_process();
  const Key key{config.nonce, config.ranks[0]};
  if (config.tokens[0] == config.process_token) {  // the leader's own mapping
    if (auto segment = registry.find(key)) return segment;
    return error(hktRemoteError, "shared memory: rank %d of this process has no segment", config.ranks[0]);
  }
  MutexLock lock(registry.attaching);
  if (auto segment = registry.find(key)) return segment;
  HKT_ASSIGN(auto segment, fetch(config, deadline));
  registry.put(key, segment);
  return segment;
}

}  // namespace

Result<std::unique_ptr<Leader>> Leader::create(const GroupConfig& config) {
  HKT_TRY(check(config));
  if (config.my_rank != config.ranks[0])
    return error(hktInternalError, "shared memory: rank %d leads this group, not %d", config.ranks[0], config.my_rank);
  std::unique_ptr<Leader> leader(new Leader);
  leader->log_ = config.log;
  leader->nonce_ = config.nonce;
  leader->creator_pid_ = getpid();
  // The name first: a second leader must not touch the first one's entry in the table.
  leader->listener_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  leader->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!leader->listener_ || !leader->wake_) return descriptor_error("shared memory: socket");
  const Name name = name_of(config.nonce, config.ranks[0]);
  if (bind(leader->listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0)
    return sys_error("shared memory: cannot take the socket name @%s (is rank %d there twice?)",
                     name.address.sun_path + 1, config.ranks[0]);
  HKT_ASSIGN(leader->segment_, Segment::create(config));
  HKT_TRY(leader->segment_->join(0));
  if (listen(leader->listener_.get(), 1024) != 0) return sys_error("shared memory: listen");
  Registry::of_process().put(Key{config.nonce, config.ranks[0]}, leader->segment_);
  return leader;
}

Status Leader::serve(Deadline deadline) {
  if (thread_.joinable()) return error(hktInternalError, "shared memory: the segment is being handed out already");
  // A system out of threads throws from here; that is the one exception of this file.
  try {
    thread_ = std::thread(&Leader::run, this, deadline);
  } catch (const std::system_error& e) {
    return error(hktSystemError, "shared memory: cannot start a thread: %s (see ulimit -u)", e.what());
  }
  return {};
}

void Leader::stop() {
  if (!thread_.joinable()) return;
  if (getpid() != creator_pid_) {  // a forked child has no such thread
    thread_.detach();
    return;
  }
  const uint64_t one = 1;
  while (write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Leader::run(Deadline deadline) {
  hand_out(deadline);
  // From now on a late comer is refused instead of left waiting, even if a forked child holds a copy of the socket.
  shutdown(listener_.get(), SHUT_RDWR);
  listener_.reset();
}

void Leader::hand_out(Deadline deadline) {
  constexpr size_t kMaxClients = 256;  // that have connected and said nothing yet
  std::vector<Fd> clients;
  std::vector<pollfd> polls;
  while (!deadline.passed()) {
    polls.assign({{wake_.get(), POLLIN, 0}, {clients.size() < kMaxClients ? listener_.get() : -1, POLLIN, 0}});
    for (const Fd& client : clients) polls.push_back({client.get(), POLLIN, 0});
    if (poll(polls.data(), polls.size(), deadline.left_ms(1000)) <= 0) continue;
    if (polls[0].revents != 0) return;
    for (size_t i = 0; i < clients.size(); ++i) {
      if (polls[2 + i].revents == 0) continue;
      Request request;
      const ssize_t n = recv(clients[i].get(), &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
      if (n == static_cast<ssize_t>(sizeof request) && request.magic == Request::kMagic && request.nonce == nonce_)
        send_descriptor(clients[i].get(), segment_->fd());  // a failure shows at the client, whose connection closes
      clients[i].reset();
    }
    clients.erase(std::remove_if(clients.begin(), clients.end(), [](const Fd& fd) { return !fd; }), clients.end());
    if (polls[1].revents == 0) continue;
    Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
      if (same_user(client.get())) clients.push_back(std::move(client));
    } else if ((errno == EMFILE || errno == ENFILE) && clients.empty()) {
      // With no descriptor left and none to come back nobody can be served: they shall hear of it now, not at the
      // deadline.
      HKT_WARN(shm, log_, "%s", descriptor_error("shared memory: handing out its descriptor").text.c_str());
      return;
    }
  }
}

Result<std::shared_ptr<Segment>> attach(const GroupConfig& config, Deadline deadline) {
  HKT_TRY(check(config));
  HKT_ASSIGN(auto segment, shared_segment(config, deadline));
  HKT_TRY(segment->join(config.my_index()));
  return segment;
}

Result<std::shared_ptr<Segment>> create_in(const std::shared_ptr<File>& file, const GroupConfig& config) {
  HKT_TRY(check(config));
  HKT_ASSIGN(auto segment, Segment::create(file, config));
  HKT_TRY(segment->join(config.my_index()));
  Registry::of_process().put(Key{config.nonce, config.ranks[0]}, segment);
  return segment;
}

Result<std::shared_ptr<Segment>> attach_in(const std::shared_ptr<File>& file, uint64_t offset,
                                           const GroupConfig& config) {
  HKT_TRY(check(config));
  Registry& registry = Registry::of_process();
  const Key key{config.nonce, config.ranks[0]};
  const auto mapped = [&]() -> Result<std::shared_ptr<Segment>> {
    const MutexLock lock(registry.mapping);
    if (auto segment = registry.find(key)) return segment;
    HKT_ASSIGN(auto segment, Segment::map(file, offset, config));
    registry.put(key, segment);
    return segment;
  };
  HKT_ASSIGN(auto segment, mapped());
  HKT_TRY(segment->join(config.my_index()));
  return segment;
}

}  // namespace hocket::shm
