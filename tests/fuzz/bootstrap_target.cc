#include "fuzz/bootstrap_target.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/proof.h"
#include "bootstrap/board.h"
#include "bootstrap/series.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/tcp_store.h"

namespace hocket {
namespace {

constexpr size_t kMost = 60'000;  // bytes that a socket takes without a reader
constexpr int kPatienceMs = 20'000;

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Two ends of a connection: into one all that a stranger says has been put, and that it says no more.
std::pair<Fd, Fd> said(std::string_view bytes) {
  auto pair = socket_pair();
  require(pair.ok(), "no socket pair");
  bytes = bytes.substr(0, kMost);
  require(send_all(pair->second.get(), bytes.data(), bytes.size(), Deadline::in_ms(kPatienceMs)).ok(), "no room");
  shutdown(pair->second.get(), SHUT_WR);
  return std::move(*pair);
}

bool is_one_line(const std::string& text) { return text.find_first_of("\n\r\x1b") == std::string::npos; }
void check(const Status& status) { require(status.ok() || is_one_line(status.error().text), "an error of two lines"); }

void check_replies(std::string_view heard) {
  if (heard.empty() || heard == no_secret_here()) return;
  wire::Reader in(heard);
  require(in.raw(4) == tcp_protocol::kMagic && in.u32() != 0 && in.ok(), "no welcome");
  while (in.left() > 0) {
    wire::Reader reply(in.bytes());
    const auto op = static_cast<tcp_protocol::Op>(reply.u8());
    require(in.ok() && reply.ok(), "half a reply");
    using tcp_protocol::Op;
    require(op == Op::done || op == Op::exists || op == Op::values || op == Op::missing || op == Op::failed ||
                op == Op::series,
            "an unknown reply");
  }
}

void try_server(std::string_view bytes) {
  constexpr size_t kConnections = 4;
  std::vector<Fd> members, strangers;
  while (!bytes.empty() && members.size() < kConnections) {
    const size_t next = bytes.find(tcp_protocol::kMagic, 1);
    auto [member, stranger] = said(bytes.substr(0, next));
    bytes.remove_prefix(std::min(next, bytes.size()));
    members.push_back(std::move(member));
    strangers.push_back(std::move(stranger));
  }
  TcpServer::Options options;
  options.nranks = 3;
  auto server = TcpServer::start({}, std::move(members), options);
  require(server.ok(), "the server does not start");
  for (const Fd& stranger : strangers) {
    std::string heard;
    char part[4096];
    for (;;) {
      const Result<size_t> n = recv_some(stranger.get(), part, sizeof part);
      if (!n) break;
      heard.append(part, n.value());
      if (n.value() > 0) continue;
      const Result<bool> ready = wait_ready(stranger.get(), POLLIN, Deadline::in_ms(kPatienceMs));
      require(ready.ok() && ready.value(), "the server keeps a connection that has ended");
    }
    check_replies(heard);
  }
}

void try_client(std::string_view bytes) {
  auto [mine, theirs] = said(bytes);
  const auto store = greeted_tcp_store(std::move(mine), {1, 3, 0, "rank 0", nullptr}, Deadline::in_ms(kPatienceMs));
  const auto look = [](const Result<Store::Found>& found, size_t asked) {
    if (!found) return check(Status(Error(found.error())));
    const Store::Found& f = found.value();
    require(f.missing.empty() ? f.values.size() == asked : f.values.empty(), "not what was asked for");
    require(is_one_line(f.note), "a note of two lines");
    for (const int index : f.missing) require(index >= 0 && index < static_cast<int>(asked), "what was not asked for");
  };
  look(store->exchange("card/1", "I", {"job", 1}, Deadline::in_ms(100)), 1);
  look(store->get({"met/0", "card/1"}, Deadline::in_ms(100)), 2);
  look(store->exchange("member/1", "I", {"member", 3}, Deadline::in_ms(100)), 3);
  check(store->put("x", "y"));
  store->fail(error(hktInternalError, "over"));
  check(store->leave(Deadline::in_ms(0)));
}

void try_proof(std::string_view bytes) {
  static const SharedSecret secret = Secret::make("the secret of a fuzzer", "a fuzzer").value();
  SeenProofs seen;
  for (const bool connects : {false, true}) {
    Handshake side = connects ? Handshake::connecting(secret, "it")
                              : Handshake::accepting(secret, "it", tcp_protocol::kMagic, &seen);
    std::string_view rest = bytes;
    std::string reply;
    while (side.expects() != 0 && rest.size() >= side.expects()) {
      const size_t n = side.expects();
      require(n <= Handshake::kMaxSealed + kSealSize, "it waits for too much");
      const Status taken = side.take(rest.substr(0, n), reply);
      check(taken);
      if (!taken.ok()) break;
      rest.remove_prefix(n);
    }
    require(side.expects() != 0, "it takes for proven what nobody can have proven");
  }
  const auto refusal = refusal_in(bytes, "it");
  require(!refusal || is_one_line(refusal->text), "an error of two lines");
}

void try_series(std::string_view bytes) {
  for (const size_t count : {size_t{1}, size_t{3}, size_t{1000}}) {
    constexpr size_t kLimit = size_t{1} << 20;
    const auto values = wire::unpack_series(bytes, count, kLimit);
    if (!values) continue;
    require(values->size() == count, "not as many values as there must be");
    size_t total = 0;
    for (const std::string& value : *values) total += value.size();
    require(total <= kLimit, "values that are too long");
    const std::string again = wire::pack_series({values->begin(), values->end()});
    require(wire::unpack_series(again, count, kLimit) == values, "a series that does not come back");
  }
}

void try_torch(std::string_view bytes) {
  auto [mine, theirs] = said(bytes);
  Identity me;
  me.rank = 1;
  me.nranks = 3;
  const auto board = greet_torch_board(std::move(mine), {{"h", 1}, "run/0"}, me, Deadline::in_ms(kPatienceMs));
  if (!board) return check(Status(Error(board.error())));
  const auto notice = board.value()->read(Deadline::in_ms(kPatienceMs));
  require(!notice || notice.value().size() <= Board::kMaxNotice, "a notice that is too long");
  check(board.value()->post("notice", Deadline::in_ms(kPatienceMs)));
}

void try_pmi(std::string_view bytes) {
  for (const int rank : {0, 1}) {
    forget_pmi_session();
    auto [mine, theirs] = said(bytes);
    Identity me;
    me.rank = rank;
    me.nranks = 3;
    const auto board = open_pmi_board({mine.get(), {}, 0}, me, Deadline::in_ms(kPatienceMs));
    if (!board) {
      check(Status(Error(board.error())));
    } else if (rank == 0) {
      check(board.value()->post("notice", Deadline::in_ms(kPatienceMs)));
    } else if (const auto notice = board.value()->read(Deadline::in_ms(kPatienceMs)); !notice) {
      check(Status(Error(notice.error())));
    }
  }
}

}  // namespace

void try_bytes(std::string_view bytes) {
  // What is refused is told at length. The log reads this at its first line.
  static const int quiet = setenv("HOCKET_DEBUG", "NONE", 1);
  (void)quiet;
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 's':
      return try_server(rest);
    case 'c':
      return try_client(rest);
    case 'p':
      return try_proof(rest);
    case 'v':
      return try_series(rest);
    case 't':
      return try_torch(rest);
    case 'm':
      return try_pmi(rest);
    default:
      return;
  }
}

}  // namespace hocket
