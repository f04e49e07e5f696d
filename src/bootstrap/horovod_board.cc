// The board of Horovod: the HTTP key-value server that horovodrun serves at HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT.
// PUT /scope/key stores, GET answers 404 until somebody has.
#include <poll.h>

#include <thread>

#include "base/text.h"
#include "bootstrap/board.h"

namespace hocket {
namespace {

constexpr size_t kMaxReply = 8192;

class HorovodBoard final : public Board {
 public:
  HorovodBoard(const HorovodPlace& place, const Identity& me)
      : server_(place.server),
        path_(format("/hocket/rank0.%llu", static_cast<unsigned long long>(me.bring_up))),
        who_(format("Horovod's rendezvous server at %s:%u", server_.host.c_str(), server_.port)) {}

  Status post(const std::string& notice, Deadline deadline) override {
    HKT_ASSIGN(const Reply reply, ask("PUT", notice, deadline));
    if (reply.status == 200) return {};
    return refused(reply);
  }

  Result<std::string> read(Deadline deadline) override {
    do {
      HKT_ASSIGN(Reply reply, ask("GET", "", deadline));
      if (reply.status == 200) return std::move(reply.body);
      if (reply.status != 404) return refused(reply);
      std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(20)));
    } while (!deadline.passed());
    return error(hktTimeout,
                 "rank 0 has not left its address with %s before the deadline: look at its output, or raise "
                 "HOCKET_INIT_TIMEOUT",
                 who_.c_str());
  }

 private:
  struct Reply {
    int64_t status = 0;
    std::string body;
  };

  Error refused(const Reply& reply) const {
    return error(hktRemoteError, "%s answers with status %lld", who_.c_str(), static_cast<long long>(reply.status));
  }

  // One request on a connection of its own, as HTTP/1.0 has it: the reply ends with it.
  Result<Reply> ask(const char* method, const std::string& body, Deadline deadline) {
    HKT_ASSIGN(const Fd fd, connect_to_server(server_, "Horovod's rendezvous server", deadline));
    const std::string request =
        format("%s %s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n", method, path_.c_str(), body.size()) + body;
    HKT_TRY(send_all(fd.get(), request.data(), request.size(), deadline));
    std::string text;
    while (text.size() < kMaxReply) {
      HKT_ASSIGN(const bool ready, wait_ready(fd.get(), POLLIN, deadline));
      if (!ready) return error(hktTimeout, "%s does not answer", who_.c_str());
      char part[1024];
      Result<size_t> got = recv_some(fd.get(), part, sizeof part);
      if (!got) break;  // closed: complete
      text.append(part, *got);
    }
    // "HTTP/1.0 200 OK"
    const size_t space = text.find(' '), head = text.find("\r\n\r\n");
    const auto status = space == std::string::npos ? std::nullopt : parse_int(text.substr(space + 1, 3));
    if (text.compare(0, 5, "HTTP/") != 0 || !status || head == std::string::npos) {
      return error(hktRemoteError, "%s does not answer as an HTTP server: %s", who_.c_str(),
                   in_quotes(text, 40).c_str());
    }
    return Reply{*status, text.substr(head + 4)};
  }

  const HostPort server_;
  const std::string path_;
  const std::string who_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_horovod_board(const HorovodPlace& place, const Identity& me, Deadline) {
  return std::unique_ptr<Board>(std::make_unique<HorovodBoard>(place, me));
}

}  // namespace hocket
