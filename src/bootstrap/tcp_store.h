// The store over TCP: a client of the TcpServer (tcp_server.h) that rank 0, or the maker of a unique id, runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/socket.h"
#include "bootstrap/store.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/unique_id.h"

namespace hocket {

// Who wants to be a member of which job.
struct TcpMember {
  int rank = 0;
  int nranks = 1;
  uint64_t nonce = 0;        // of the unique id; 0 for a tcp:// URL
  std::string server;        // the server in messages: "rank 0 at tcp://10.0.0.1:29500"
  SharedSecret secret = {};  // of the job; null: it has none
  // Whoever listens where it looks may be of another job: to be refused there means to look on.
  bool searches = false;
  uint16_t wire_version = tcp_protocol::kWireVersion;  // tests pretend to have another one
};

// Rank 0 of a tcp:// job: starts the server and is its first member. It listens on those addresses of `where` that are
// this host's, and on all addresses if there are none or the name means only loopback (as a host's own name often does,
// where the others could not reach it). With one rank nothing is opened. A port in use is tried for half a second; if a
// rank 0 of Hocket answers there, this process joins it, so that all its ranks hear of the clash.
Result<std::unique_ptr<Store>> host_tcp_store(const HostPort& where, const TcpMember& me, Deadline deadline);

// The same with sockets that listen already (none for one rank).
Result<std::unique_ptr<Store>> host_tcp_store(std::vector<Fd> listeners, const TcpMember& me, Deadline deadline);

// Any other rank: looks up `where` and tries all its addresses, again and again until the deadline.
Result<std::unique_ptr<Store>> join_tcp_store(const HostPort& where, const TcpMember& me, Deadline deadline);
// The same with a source that is asked before each try. Its error hktRemoteError means "not yet".
using ContactSource = std::function<Result<Contact>()>;
Result<std::unique_ptr<Store>> join_tcp_store(const ContactSource& source, const TcpMember& me, Deadline deadline);

// The same on a connection that stands, and on which both have greeted.
std::unique_ptr<Store> greeted_tcp_store(Fd fd, const TcpMember& me, Deadline deadline);

}  // namespace hocket
