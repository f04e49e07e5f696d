// Primitives over TCP on loopback.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "primitives.h"
#include "tcp.h"

namespace floors {
namespace {

constexpr size_t kStreamBytes = size_t{8} << 20;

bool exchange_words(Bench& bench, Team& team, Samples* samples, int socket, bool blocking) {
  const auto batch = [&](int k) {
    for (int i = 0; i < k; i++) {
      uint64_t word = 1;
      ssize_t n = send(socket, &word, sizeof(word), MSG_NOSIGNAL);
      if (n != sizeof(word)) return false;
      do {
        n = recv(socket, &word, sizeof(word), blocking ? MSG_WAITALL : MSG_DONTWAIT);
      } while (n < 0 && (errno == EAGAIN || errno == EINTR));
      if (n != sizeof(word)) return false;
    }
    return true;
  };
  return bench.sample(team, samples, batch, [](double s) { return s * 1e6; });
}

bool stream_both_ways(Bench& bench, Team& team, Samples* samples, int socket, size_t chunk, Waiting waiting) {
  const Duplex duplex(socket, chunk, waiting);
  const std::vector<char> out(kStreamBytes, 1);
  std::vector<char> in(kStreamBytes);
  const auto batch = [&](int k) {
    for (int i = 0; i < k; i++) {
      if (!duplex.exchange(out.data(), kStreamBytes, in.data(), kStreamBytes)) return false;
    }
    return true;
  };
  return bench.sample(team, samples, batch, [](double s) { return static_cast<double>(kStreamBytes) / s * 1e-9; });
}

// Sends to the right and receives from the left at the same time.
bool pass_on(int left, int right, const char* out, char* in, size_t bytes) {
  constexpr size_t kChunk = size_t{256} << 10;
  const Duplex to(right, kChunk, Waiting::poll), from(left, kChunk, Waiting::poll);
  size_t sent = 0, received = 0;
  while (sent < bytes || received < bytes) {
    const long s = sent < bytes ? to.send_some(out + sent, bytes - sent) : 0;
    const long r = s >= 0 && received < bytes ? from.receive_some(in + received, bytes - received) : 0;
    if (s < 0 || r < 0) return false;
    sent += static_cast<size_t>(s);
    received += static_cast<size_t>(r);
    if (s > 0 || r > 0) continue;
    pollfd p[2] = {{right, static_cast<short>(sent < bytes ? POLLOUT : 0), 0},
                   {left, static_cast<short>(received < bytes ? POLLIN : 0), 0}};
    if (poll(p, 2, -1) < 0 && errno != EINTR) return false;
  }
  return true;
}

bool stream_ring(Bench& bench, Team& team, Samples* samples, const std::vector<TcpPair>& pairs) {
  const size_t me = static_cast<size_t>(team.rank), n = pairs.size();
  const std::vector<char> out(kStreamBytes, 1);
  std::vector<char> in(kStreamBytes);
  const auto batch = [&](int k) {
    for (int i = 0; i < k; i++) {
      // pairs[i] joins rank i (end 0) and its right-hand neighbour (end 1)
      if (!pass_on(pairs[(me + n - 1) % n].end[1], pairs[me].end[0], out.data(), in.data(), kStreamBytes)) return false;
    }
    return true;
  };
  return bench.sample(team, samples, batch, [](double s) { return static_cast<double>(kStreamBytes) / s * 1e-9; });
}

}  // namespace

bool measure_tcp(Bench& bench) {
  const rk_hosts none = {};
  const TcpPlace here{&none, {0, 1}};
  TcpPair plain, wide;
  std::vector<TcpPair> ring(4);
  bool good = tcp_connect(here, 0, &plain) && tcp_connect(here, 4 << 20, &wide);
  for (TcpPair& pair : ring) good = good && tcp_connect(here, 0, &pair);
  for (const bool blocking : {true, false}) {
    good = good && bench.run(std::string("tcp exchange of 8 bytes, ") + (blocking ? "blocking" : "spinning"), "us", 2,
                             [&](Team& team, Samples* s) {
                               return exchange_words(bench, team, s, plain.end[team.rank], blocking);
                             });
  }
  for (const bool large : {false, true}) {
    for (const Waiting waiting : {Waiting::spin, Waiting::poll}) {
      const std::string name = std::string("tcp stream both ways, each way, ") +
                               (large ? "4 MiB window" : "kernel's window") +
                               (waiting == Waiting::spin ? ", spinning" : ", poll");
      good = good && bench.run(name, "GB/s", 2, [&](Team& team, Samples* s) {
        const TcpPair& pair = large ? wide : plain;
        return stream_both_ways(bench, team, s, pair.end[team.rank], size_t{256} << 10, waiting);
      });
    }
  }
  return good && bench.run("tcp ring of 4 processes, each way", "GB/s", 4,
                           [&](Team& team, Samples* s) { return stream_ring(bench, team, s, ring); });
}

}  // namespace floors
