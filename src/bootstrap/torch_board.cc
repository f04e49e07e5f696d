// The board of torchrun: the TCPStore that its agent serves at MASTER_PORT, as a client of its protocol (version of
// PyTorch 2; libuv's server and the older one speak the same).
//
// Little-endian; a string is u64 length and bytes. A request is u8 operation and its fields:
//   0 VALIDATE u32 magic      no reply; must be first
//   1 SET key, value          no reply
//   3 GET key                 -> string; does not wait: one asks WAIT first
//   6 WAIT u64 n, n keys      -> u8 0 once all are there
//  13 PING u32 nonce          -> u32 nonce
//
// The store lives as long as the agent: keys of workers that were killed are still there when the next ones start. So
// the key holds the run and how often it was restarted; and as a change of the number of workers restarts them without
// being counted, the notice holds a nonce, and a reader whom its address does not answer reads again.
#include "base/text.h"
#include "bootstrap/board.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

constexpr uint32_t kMagic = 0x3c85f7ce;
constexpr uint8_t kValidate = 0, kSet = 1, kGet = 3, kWait = 6, kPing = 13;
constexpr int kGreetingMs = 5000;

class TorchBoard final : public Board {
 public:
  TorchBoard(Fd fd, const TorchPlace& place, const Identity& me)
      : fd_(std::move(fd)),
        key_("/hocket/" + place.job + "/" + std::to_string(me.bring_up)),
        who_(format("torchrun's store at %s:%u", place.store.host.c_str(), place.store.port)) {}

  Status greet(Deadline deadline) {
    constexpr uint32_t kNonce = 0x686b7431;
    HKT_TRY(send(wire::Writer().u8(kValidate).u32(kMagic).u8(kPing).u32(kNonce).view(), deadline));
    char answer[4];
    const Status got = recv_all(fd_.get(), answer, sizeof answer, deadline);
    wire::Reader in(std::string_view(answer, sizeof answer));
    if (got.ok() && in.u32() == kNonce) return {};
    return error(
        hktInvalidUsage,
        "what listens at MASTER_ADDR and MASTER_PORT does not answer as %s should%s%s: is "
        "TORCHELASTIC_USE_AGENT_STORE left over from another launch, or does the store's host wait for DNS, which "
        "it asks for the name of every client?",
        who_.c_str(), got.ok() ? "" : ": ", got.ok() ? "" : got.error().text.c_str());
  }

  Status post(const std::string& notice, Deadline deadline) override {
    HKT_TRY(send(string(string(wire::Writer().u8(kSet), key_), notice).view(), deadline));
    // SET has no reply; that the store has it shows in its answer to something.
    return wait(deadline);
  }

  Result<std::string> read(Deadline deadline) override {
    HKT_TRY(wait(deadline));
    HKT_TRY(send(string(wire::Writer().u8(kGet), key_).view(), deadline));
    char head[8];
    HKT_TRY(receive(head, sizeof head, deadline));
    const uint64_t size = wire::Reader(std::string_view(head, sizeof head)).u64();
    if (size > kMaxNotice) return error(hktRemoteError, "%s answers with %llu bytes", who_.c_str(), to_ull(size));
    std::string out(size, '\0');
    HKT_TRY(receive(out.data(), out.size(), deadline));
    return out;
  }

 private:
  static unsigned long long to_ull(uint64_t n) { return n; }
  static wire::Writer string(wire::Writer to, std::string_view text) { return to.u64(text.size()).raw(text); }

  Status wait(Deadline deadline) {
    HKT_TRY(send(string(wire::Writer().u8(kWait).u64(1), key_).view(), deadline));
    char done = 1;
    const Status got = recv_all(fd_.get(), &done, 1, deadline);
    if (!got.ok() && got.error().code == hktTimeout) {
      return error(hktTimeout,
                   "rank 0 has not left its address in %s (key %s) before the deadline: look at its output, or raise "
                   "HOCKET_INIT_TIMEOUT",
                   who_.c_str(), in_quotes(key_).c_str());
    }
    if (!got.ok()) return lost(got.error());
    if (done != 0) return error(hktRemoteError, "%s has ended the wait for rank 0", who_.c_str());
    return {};
  }

  Status send(const std::string& bytes, Deadline deadline) {
    Status sent = send_all(fd_.get(), bytes.data(), bytes.size(), deadline);
    return sent.ok() ? Status() : lost(sent.error());
  }
  Status receive(char* to, size_t n, Deadline deadline) {
    Status got = recv_all(fd_.get(), to, n, deadline);
    return got.ok() ? Status() : lost(got.error());
  }
  // hktSystemError: a lost store does not come back, so nobody need try again.
  Error lost(const Error& why) const {
    return error(hktSystemError, "%s is lost: %s: has torchrun's agent ended?", who_.c_str(), why.text.c_str());
  }

  Fd fd_;
  const std::string key_;
  const std::string who_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_torch_board(const TorchPlace& place, const Identity& me, Deadline deadline) {
  HKT_ASSIGN(Fd fd, connect_to_server(place.store, "torchrun's store", deadline));
  return greet_torch_board(std::move(fd), place, me, deadline);
}

Result<std::unique_ptr<Board>> greet_torch_board(Fd fd, const TorchPlace& place, const Identity& me,
                                                 Deadline deadline) {
  auto board = std::make_unique<TorchBoard>(std::move(fd), place, me);
  HKT_TRY(board->greet(Deadline::in_ms(deadline.left_ms(kGreetingMs))));
  return std::unique_ptr<Board>(std::move(board));
}

}  // namespace hocket
