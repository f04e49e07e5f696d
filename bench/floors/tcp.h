// TCP between processes, over loopback or between network namespaces: connecting, and moving bytes both ways at once.
#pragma once

#include <cstddef>
#include <vector>

#include "peers/ranks.h"

namespace floors {

// One connection; end[r] belongs to rank r. Made before the ranks are forked.
struct TcpPair {
  int end[2];
};

// The sizes in which a stream is handed to the kernel. Each has connections of its own: one that has lost or delayed
// data in a burst stays slow for a long time, whoever uses it next.
constexpr size_t kStreamChunks[] = {size_t{32} << 10, size_t{128} << 10, size_t{512} << 10};
constexpr size_t kStreams = sizeof(kStreamChunks) / sizeof(kStreamChunks[0]);

// Connections with the kernel's receive window and with a large one: which is faster depends on size and machine.
struct TcpPairs {
  TcpPair messages;
  TcpPair plain[kStreams];
  TcpPair wide[kStreams];
};
// Makes all of them; false and a line on stderr on failure.
bool tcp_connect_all(const rk_hosts& hosts, TcpPairs* pairs);

// More than two ranks: a connection of every pair, at rank_a * ranks + rank_b for a < b; two meshes, for messages and
// for streams.
struct TcpMesh {
  std::vector<TcpPair> messages, plain, wide;
};
bool tcp_connect_mesh(const rk_hosts& hosts, int ranks, TcpMesh* mesh);

// Where the two ends are; without hosts, on loopback.
struct TcpPlace {
  const rk_hosts* hosts;
  int rank[2];
};
// A receive window of `window_bytes` (0: the kernel's choice), and no pacing by timers. False and a line on stderr on
// failure.
bool tcp_connect(const TcpPlace& place, int window_bytes, TcpPair* pair);

enum class Waiting { spin, poll };

// Sends `out` and receives `in` at the same time over one socket, at most `chunk` bytes a system call.
// false: the peer is gone or a call failed, said on stderr.
class Duplex {
 public:
  Duplex(int socket, size_t chunk, Waiting waiting) : socket_(socket), chunk_(chunk), waiting_(waiting) {}

  // Each moves what the kernel takes at once: bytes moved, 0 when it would block, -1 on failure.
  long send_some(const void* data, size_t bytes) const;
  long receive_some(void* data, size_t bytes) const;
  // After a round in which neither moved anything.
  bool wait(bool to_send, bool to_receive) const;

  bool exchange(const void* out, size_t out_bytes, void* in, size_t in_bytes) const;

 private:
  int socket_;
  size_t chunk_;
  Waiting waiting_;
};

}  // namespace floors
