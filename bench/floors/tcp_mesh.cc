// All-reduce of more than two ranks over TCP: every pair has a connection.
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels.h"
#include "scheme.h"
#include "tcp.h"

namespace floors {
namespace {

constexpr size_t kKiB = 1024;

bool failed(const char* what) {
  std::fprintf(stderr, "floors: tcp: %s: %s\n", what, std::strerror(errno));
  return false;
}

// My end of the connection with each rank; -1 for myself.
std::vector<int> ends_of(int rank, int ranks, const std::vector<TcpPair>& pairs) {
  std::vector<int> ends(static_cast<size_t>(ranks), -1);
  for (int p = 0; p < ranks; p++) {
    const int low = std::min(p, rank), high = std::max(p, rank);
    if (p != rank)
      ends[static_cast<size_t>(p)] =
          pairs[static_cast<size_t>(low) * static_cast<size_t>(ranks) + static_cast<size_t>(high)]
              .end[rank == low ? 0 : 1];
  }
  return ends;
}

// Small: everything to everybody, then the sum of all in the order of ranks.
class MeshMessage : public Scheme {
 public:
  MeshMessage(int rank, std::vector<int> ends, bool blocking)
      : Scheme(blocking ? "messages to all, blocking" : "messages to all, yielding", 4, 16 * kKiB),
        rank_(static_cast<size_t>(rank)),
        ends_(std::move(ends)),
        blocking_(blocking),
        landing_(ends_.size(), std::vector<float>(4 * kKiB)) {}

  bool run(const float* in, float* out, size_t count) override {
    const size_t bytes = count * sizeof(float);
    for (const int end : ends_)
      if (end >= 0 && send(end, in, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) return failed("send");
    for (size_t p = 0; p < ends_.size(); p++) {
      if (p == rank_) continue;
      char* const to = reinterpret_cast<char*>(landing_[p].data());
      for (size_t received = 0; received < bytes;) {
        const ssize_t n = recv(ends_[p], to + received, bytes - received, blocking_ ? MSG_WAITALL : MSG_DONTWAIT);
        if (n > 0) received += static_cast<size_t>(n);
        if (n == 0) errno = ECONNRESET;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return failed("receive");
        if (n < 0) sched_yield();
      }
    }
    const auto of = [&](size_t p) { return p == rank_ ? in : landing_[p].data(); };
    kernels().add[kCached](out, of(0), of(1), count);
    for (size_t p = 2; p < ends_.size(); p++) kernels().add[kCached](out, out, of(p), count);
    return true;
  }

 private:
  size_t rank_;
  std::vector<int> ends_;
  bool blocking_;
  std::vector<std::vector<float>> landing_;
};

// Large: each rank adds up its part, all ways at once. What comes of a peer is added behind what has come of the one
// before it, while it is in the cache; sums leave as soon as they are done.
class MeshStream : public Scheme {
 public:
  MeshStream(int rank, const std::vector<int>& ends, size_t chunk, const char* buffers)
      : Scheme(std::string("two shot to all, chunks of ") + std::to_string(chunk / kKiB) + " KiB, " + buffers, 8 * kKiB,
               SIZE_MAX),
        rank_(static_cast<size_t>(rank)),
        chunk_(chunk) {
    for (const int end : ends) peers_.push_back({Duplex(end, chunk, Waiting::poll), end, 0, 0, 0, 0, {}});
    for (Peer& p : peers_) p.landing.resize(chunk / sizeof(float));
  }

  bool run(const float* in, float* out, size_t count) override {
    in_ = in;
    out_ = out;
    const size_t n = peers_.size(), each = count / n / 16 * 16;
    begin_.resize(n + 1);
    for (size_t p = 0; p < n; p++) begin_[p] = p * each;
    begin_[n] = count;
    for (Peer& p : peers_) p.sent = p.received = p.added = 0;
    std::vector<pollfd> polls;
    for (;;) {
      bool moved = false, done = true;
      size_t ready = bytes_of(rank_);  // sums that the next peer may be added to
      for (size_t p = 0; p < n; p++) {
        if (p == rank_) continue;
        const long m = receive(p, ready);
        if (m < 0) return false;
        moved = moved || m > 0;
        peers_[p].limit = ready;
        ready = std::min(ready, peers_[p].added);
      }
      polls.clear();
      for (size_t p = 0; p < n; p++) {
        if (p == rank_) continue;
        const long m = give(p, ready);
        if (m < 0) return false;
        moved = moved || m > 0;
        const size_t inputs = bytes_of(p), all = bytes_of(rank_);
        const bool sends = peers_[p].sent < inputs + ready, receives = peers_[p].received < inputs + all;
        const bool waits = receives && (peers_[p].received >= all || peers_[p].received < peers_[p].limit);
        done = done && peers_[p].sent == inputs + all && !receives;
        polls.push_back({peers_[p].end, static_cast<short>((sends ? POLLOUT : 0) | (waits ? POLLIN : 0)), 0});
      }
      if (done) return true;
      if (!moved && poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return failed("poll");
    }
  }

 private:
  struct Peer {
    Duplex duplex;
    int end;
    size_t sent, received, added;  // bytes
    size_t limit;                  // to which its contributions may be added now
    std::vector<float> landing;
  };
  size_t bytes_of(size_t p) const { return (begin_[p + 1] - begin_[p]) * sizeof(float); }

  // First its contributions to my part, no further than `ready`; then its sums.
  long receive(size_t p, size_t ready) {
    Peer& peer = peers_[p];
    const size_t all = bytes_of(rank_);
    if (peer.received >= all) {
      const size_t at = peer.received - all;
      if (at == bytes_of(p)) return 0;
      const long n = peer.duplex.receive_some(reinterpret_cast<char*>(out_ + begin_[p]) + at, bytes_of(p) - at);
      if (n > 0) peer.received += static_cast<size_t>(n);
      return n;
    }
    if (peer.received >= ready) return 0;
    const size_t kept = peer.received - peer.added;
    char* const landing = reinterpret_cast<char*>(peer.landing.data());
    const long n = peer.duplex.receive_some(landing + kept, std::min(chunk_ - kept, ready - peer.received));
    if (n <= 0) return n;
    peer.received += static_cast<size_t>(n);
    const size_t whole = (kept + static_cast<size_t>(n)) / sizeof(float),
                 at = begin_[rank_] + peer.added / sizeof(float);
    const bool first = p == (rank_ == 0 ? 1 : 0);
    kernels().add[kCached](out_ + at, first ? in_ + at : out_ + at, peer.landing.data(), whole);
    peer.added += whole * sizeof(float);
    std::memmove(landing, landing + whole * sizeof(float), peer.received - peer.added);
    return n;
  }

  long give(size_t p, size_t ready) {
    Peer& peer = peers_[p];
    const size_t inputs = bytes_of(p);
    long n = 0;
    if (peer.sent < inputs)
      n = peer.duplex.send_some(reinterpret_cast<const char*>(in_ + begin_[p]) + peer.sent, inputs - peer.sent);
    else if (peer.sent - inputs < ready)
      n = peer.duplex.send_some(reinterpret_cast<const char*>(out_ + begin_[rank_]) + (peer.sent - inputs),
                                ready - (peer.sent - inputs));
    if (n > 0) peer.sent += static_cast<size_t>(n);
    return n;
  }

  size_t rank_, chunk_;
  std::vector<Peer> peers_;
  std::vector<size_t> begin_;  // of each rank's part, floats
  const float* in_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace

bool tcp_connect_mesh(const rk_hosts& hosts, int ranks, TcpMesh* mesh) {
  bool good = true;
  for (std::vector<TcpPair>* pairs : {&mesh->messages, &mesh->plain, &mesh->wide}) {
    pairs->resize(static_cast<size_t>(ranks) * static_cast<size_t>(ranks));
    for (int a = 0; a < ranks; a++)
      for (int b = a + 1; b < ranks; b++)
        good = good &&
               tcp_connect({&hosts, {a, b}}, pairs == &mesh->wide ? 4 << 20 : 0,
                           &(*pairs)[static_cast<size_t>(a) * static_cast<size_t>(ranks) + static_cast<size_t>(b)]);
  }
  return good;
}

void add_tcp_mesh_schemes(int rank, int ranks, const TcpMesh& mesh, Schemes& all) {
  for (const bool blocking : {true, false})
    all.push_back(std::make_unique<MeshMessage>(rank, ends_of(rank, ranks, mesh.messages), blocking));
  for (const size_t chunk : {64 * kKiB, 256 * kKiB}) {
    all.push_back(std::make_unique<MeshStream>(rank, ends_of(rank, ranks, mesh.plain), chunk, "kernel's window"));
    all.push_back(std::make_unique<MeshStream>(rank, ends_of(rank, ranks, mesh.wide), chunk, "4 MiB window"));
  }
}

}  // namespace floors
