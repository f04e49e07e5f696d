#include "tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels.h"
#include "scheme.h"

namespace floors {
namespace {

bool failed(const char* what) {
  std::fprintf(stderr, "floors: tcp: %s: %s\n", what, std::strerror(errno));
  return false;
}

// The sender's buffer stays the kernel's: a large one only holds more than the caches do.
bool set_window(int socket, int bytes) {
  return bytes == 0 || setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) == 0;
}

}  // namespace

namespace {

// BBR and its like measure how fast they may send; between neighbours what they find is for some connections far too
// low.
void do_not_pace(int socket) {
  char name[16] = "";
  socklen_t size = sizeof(name) - 1;
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 || std::strncmp(name, "bbr", 3) != 0) return;
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

int make_socket(int window_bytes) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0 || !set_window(made, window_bytes)) return -1;
  do_not_pace(made);
  return made;
}

}  // namespace

// A socket stays in the network namespace in which it was made, whoever uses it.
bool tcp_connect(const TcpPlace& place, int window_bytes, TcpPair* pair) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (place.hosts->count != 0) address.sin_addr = place.hosts->addresses[place.rank[0] % place.hosts->count];
  socklen_t length = sizeof(address);
  const int one = 1;
  if (rk_enter_host(place.hosts, place.rank[0]) != 0) return false;
  const int listener = make_socket(window_bytes);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 1) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return failed("listen");
  }
  if (rk_enter_host(place.hosts, place.rank[1]) != 0) return false;
  pair->end[1] = make_socket(window_bytes);
  if (pair->end[1] < 0 || connect(pair->end[1], reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return failed("connect");
  }
  pair->end[0] = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (pair->end[0] < 0) return failed("accept");
  close(listener);
  for (const int end : pair->end) {
    if (setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) return failed("TCP_NODELAY");
  }
  return true;
}

bool tcp_connect_all(const rk_hosts& hosts, TcpPairs* pairs) {
  const TcpPlace place{&hosts, {0, 1}};
  bool good = tcp_connect(place, 0, &pairs->messages);
  for (size_t i = 0; i < kStreams; i++) {
    good = good && tcp_connect(place, 0, &pairs->plain[i]) && tcp_connect(place, 4 << 20, &pairs->wide[i]);
  }
  return good;
}

long Duplex::send_some(const void* data, size_t bytes) const {
  const ssize_t n = send(socket_, data, std::min(bytes, chunk_), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n >= 0) return n;
  if (errno == EAGAIN || errno == EINTR) return 0;
  failed("send");
  return -1;
}

long Duplex::receive_some(void* data, size_t bytes) const {
  const ssize_t n = recv(socket_, data, std::min(bytes, chunk_), MSG_DONTWAIT);
  if (n > 0) return n;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n == 0) errno = ECONNRESET;
  failed("receive");
  return -1;
}

bool Duplex::wait(bool to_send, bool to_receive) const {
  if (waiting_ == Waiting::spin) return true;
  pollfd p{socket_, static_cast<short>((to_send ? POLLOUT : 0) | (to_receive ? POLLIN : 0)), 0};
  return poll(&p, 1, -1) >= 0 || errno == EINTR || failed("poll");
}

bool Duplex::exchange(const void* out, size_t out_bytes, void* in, size_t in_bytes) const {
  size_t sent = 0, received = 0;
  while (sent < out_bytes || received < in_bytes) {
    long s = 0, r = 0;
    if (sent < out_bytes) s = send_some(static_cast<const char*>(out) + sent, out_bytes - sent);
    if (received < in_bytes && s >= 0) r = receive_some(static_cast<char*>(in) + received, in_bytes - received);
    if (s < 0 || r < 0) return false;
    sent += static_cast<size_t>(s);
    received += static_cast<size_t>(r);
    if (s == 0 && r == 0 && !wait(sent < out_bytes, received < in_bytes)) return false;
  }
  return true;
}

namespace {

constexpr size_t kKiB = 1024;

// Small: one message each way, then the sum. With blocking calls the kernel wakes the reader; spinning asks again.
class TcpMessage : public Scheme {
 public:
  TcpMessage(int socket, bool blocking)
      : Scheme(blocking ? "one message, blocking" : "one message, spinning", 4, sizeof(buffer_)),
        socket_(socket),
        blocking_(blocking) {}

  bool run(const float* in, float* out, size_t count) override {
    const size_t bytes = count * sizeof(float);
    if (send(socket_, in, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) return failed("send");
    char* to = reinterpret_cast<char*>(buffer_);
    for (size_t received = 0; received < bytes;) {
      const ssize_t n = recv(socket_, to + received, bytes - received, blocking_ ? MSG_WAITALL : MSG_DONTWAIT);
      if (n > 0) received += static_cast<size_t>(n);
      if (n == 0) errno = ECONNRESET;
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return failed("receive");
    }
    kernels().add[kCached](out, in, buffer_, count);
    return true;
  }

 private:
  int socket_;
  bool blocking_;
  float buffer_[4 * kKiB];
};

// Large: both ways at once; what arrives is added while it is still in the cache.
//   one shot: the whole input each way;
//   two shot: first the half that the other adds up, then the results of the own half, as far as they are done;
//   staged: the same, but the kernel only sees chunks that are in the cache. Its copies of memory that is not are slow.
enum class Way { one_shot, two_shot, staged };

struct StreamTuning {
  Way way;
  size_t chunk;
  Waiting waiting;
};

class TcpStream : public Scheme {
 public:
  TcpStream(int rank, int socket, const char* buffers, const StreamTuning& t)
      : Scheme(std::string(t.way == Way::one_shot ? "one shot" : "two shot") + ", chunks of " +
                   std::to_string(t.chunk / kKiB) + " KiB, " + (t.way == Way::staged ? "staged, " : "") + buffers +
                   (t.waiting == Waiting::spin ? ", spinning" : ", poll"),
               8 * kKiB, SIZE_MAX),
        rank_(rank),
        halves_(t.way != Way::one_shot),
        chunk_(t.chunk),
        duplex_(socket, t.chunk, t.waiting),
        landing_(t.chunk / sizeof(float)),
        stage_(t.way == Way::staged ? t.chunk : 0) {}

  bool run(const float* in, float* out, size_t count) override {
    const size_t half = halves_ ? count / 2 / 16 * 16 : 0;
    const size_t mine = halves_ && rank_ == 0 ? 0 : half;
    const size_t theirs = halves_ ? half - mine : 0;
    added_ = 0;
    state_ = State{in + mine, out + mine, in + theirs, out + theirs, 0, 0};
    state_.add_bytes = (!halves_ ? count : rank_ == 0 ? half : count - half) * sizeof(float);
    state_.take_bytes = halves_ ? count * sizeof(float) - state_.add_bytes : 0;
    return move();
  }

 private:
  struct State {
    const float* add_in;  // the part that this rank adds up
    float* add_out;
    const float* send_in;  // the part that the other one does
    float* take_out;
    size_t add_bytes;
    size_t take_bytes;
  };

  // Sent: the other's part (one shot: everything), then the sums. Received: the contributions, then the other's sums.
  bool move() {
    const State& s = state_;
    const size_t inputs = halves_ ? s.take_bytes : s.add_bytes;
    const size_t to_send = inputs + (halves_ ? s.add_bytes : 0);
    const size_t to_receive = s.add_bytes + s.take_bytes;
    size_t sent = 0, received = 0;
    while (sent < to_send || received < to_receive) {
      const size_t ready = sent < inputs ? inputs - sent : inputs + (halves_ ? added_ : 0) - sent;
      long n = 0, m = 0;
      if (ready > 0) {
        const char* from = sent < inputs ? reinterpret_cast<const char*>(s.send_in) + sent
                                         : reinterpret_cast<const char*>(s.add_out) + (sent - inputs);
        n = stage_.empty() ? duplex_.send_some(from, ready) : send_staged(from, ready);
      }
      if (n >= 0 && received < to_receive) m = received < s.add_bytes ? receive_and_add(received) : take(received);
      if (n < 0 || m < 0) return false;
      sent += static_cast<size_t>(n);
      received += static_cast<size_t>(m);
      if (n == 0 && m == 0 && !duplex_.wait(ready > 0, received < to_receive)) return false;
    }
    return true;
  }

  // The stage is filled when it is empty, at `from`, which is where the bytes sent so far end.
  long send_staged(const char* from, size_t ready) {
    if (stage_sent_ == stage_bytes_) {
      stage_sent_ = 0;
      stage_bytes_ = std::min(ready, chunk_);
      std::memcpy(stage_.data(), from, stage_bytes_);
    }
    const long n = duplex_.send_some(stage_.data() + stage_sent_, stage_bytes_ - stage_sent_);
    if (n > 0) stage_sent_ += static_cast<size_t>(n);
    return n;
  }

  // Contributions land in one small buffer, over and over; a tail of less than a float stays there for the next time.
  long receive_and_add(size_t received) {
    char* landing = reinterpret_cast<char*>(landing_.data());
    const size_t kept = received - added_;
    const size_t room = std::min(chunk_ - kept, state_.add_bytes - received);
    const long n = duplex_.receive_some(landing + kept, room);
    if (n <= 0) return n;
    const size_t whole = (kept + static_cast<size_t>(n)) / sizeof(float);
    const size_t at = added_ / sizeof(float);
    kernels().add[kCached](state_.add_out + at, state_.add_in + at, landing_.data(), whole);
    added_ += whole * sizeof(float);
    const size_t tail = received + static_cast<size_t>(n) - added_;
    std::memmove(landing, landing + whole * sizeof(float), tail);
    return n;
  }

  long take(size_t received) {
    const size_t at = received - state_.add_bytes;
    char* to = reinterpret_cast<char*>(state_.take_out) + at;
    if (stage_.empty()) return duplex_.receive_some(to, state_.take_bytes - at);
    const long n = duplex_.receive_some(landing_.data(), std::min(chunk_, state_.take_bytes - at));
    if (n > 0) std::memcpy(to, landing_.data(), static_cast<size_t>(n));
    return n;
  }

  int rank_;
  bool halves_;
  size_t chunk_;
  Duplex duplex_;
  std::vector<float> landing_;
  std::vector<char> stage_;  // empty unless staged
  size_t stage_bytes_ = 0, stage_sent_ = 0;
  State state_ = {};
  size_t added_ = 0;  // bytes of sums done
};

}  // namespace

void add_tcp_schemes(int rank, const TcpPairs& pairs, Schemes& all) {
  for (const bool blocking : {true, false}) {
    all.push_back(std::make_unique<TcpMessage>(pairs.messages.end[rank], blocking));
  }
  for (size_t i = 0; i < kStreams; i++) {
    for (const Way way : {Way::one_shot, Way::two_shot, Way::staged}) {
      for (const Waiting waiting : {Waiting::spin, Waiting::poll}) {
        const StreamTuning t{way, kStreamChunks[i], waiting};
        all.push_back(std::make_unique<TcpStream>(rank, pairs.plain[i].end[rank], "kernel's window", t));
        all.push_back(std::make_unique<TcpStream>(rank, pairs.wide[i].end[rank], "4 MiB window", t));
      }
    }
  }
}

}  // namespace floors
