// Connector: makes the connections of the pairs of ranks of a communicator. Visitors come from the rank's Port; of a
// pair the higher rank connects and the lower accepts. A peer's addresses are tried in order, the next one after 250 ms
// or at a failure, and the first that answers with the right hello is taken. Nothing here blocks. Not thread-safe.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/proof.h"
#include "base/result.h"
#include "base/routes.h"
#include "base/secret.h"
#include "base/socket.h"
#include "transport/tcp/port.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace hocket::tcp {

class Connector {
 public:
  struct Config {
    int rank = 0;
    int nranks = 1;
    uint64_t nonce = 0;
    Limits limits;
    LogId log;
    int epoll = -1;            // will report all sockets that need progress()
    SharedSecret secret = {};  // that both sides prove to know before the hello; null: none

    Hello hello(Purpose purpose) const;
  };
  static constexpr int64_t kNextAfterNs = 250'000'000;
  static constexpr int64_t kHelloNs = 5'000'000'000;     // the same once a connection stands and no hello has come
  static constexpr int64_t kConnectNs = 20'000'000'000;  // for one address to answer at all
  static constexpr int64_t kEndedNs = 500'000'000;       // for a connection to overtake the end of a watch

  explicit Connector(const Config& config) : config_(config) {}
  const Config& config() const { return config_; }

  // Addresses of a rank from its Port::contact(). An error says what is wrong with the bytes.
  static Result<std::vector<Address>> parse_contact(std::string_view bytes);

  // Starts to connect to `rank` (higher connects to lower; one at a time), or to watch it (lower to higher). An error:
  // this process has no descriptor or memory for it; that no address answers shows in progress().
  Status dial(int rank, std::vector<Way> ways, Purpose purpose);

  struct Made {
    int rank;
    Fd fd;
    Address peer;
    Purpose purpose;  // carry or share
  };
  struct Failed {
    int rank;  // who is to blame
    Error error;
  };
  struct Told {
    int rank;  // who has told it
    Fault fault;
  };
  struct Events {
    std::vector<Made> made;
    std::vector<Failed> failed;
    std::vector<Told> told;
    std::vector<Failed> fewer;  // a connection less to this rank, which is no fault
  };
  // Takes visitors in, connects, says hello. Appends what has come of it.
  void progress(Events& events, std::vector<Port::Visitor>& visitors);
  // There is something under way that needs progress() soon.
  bool busy() const {
    return !dials_.empty() ||
           std::any_of(pending_.begin(), pending_.end(), [](const Pending& p) { return p.state != State::watched; });
  }
  // `rank` is connected: forgets all other attempts of that kind between it and this rank.
  void settle(int rank, Purpose purpose = Purpose::carry);

 private:
  enum class State : uint8_t {
    connecting,  // -> proving or said
    proving,     // we connected, and each side proves that it knows the job's secret -> said
    said,        // we connected and said hello, theirs is awaited -> made
    answered,    // they connected and we answered, their choice is awaited -> made
    watching,    // we connected to see them end -> ended
    ended,       // they have; a connection of theirs that is still on its way would explain it
    watched,     // they connected to see us end
    listening,   // they connected to tell of a fault
  };
  struct Pending {
    Fd fd;
    Address peer;
    int rank = -1;
    Purpose purpose = Purpose::carry;
    State state = State::connecting;
    int64_t since = 0;
    size_t got = 0;
    bool late = false;  // this rank has been away for so long that they may have let go of it as of a stray
    std::optional<Handshake> proof = {};
    std::array<unsigned char, sizeof(Header) + kMaxControl> bytes{};  // a Hello, a Header, or a fault frame
  };
  struct Dial {
    int rank = -1;
    Purpose purpose = Purpose::carry;
    std::vector<Way> ways;
    size_t next = 0;  // way to try
    int64_t next_at = 0;
    std::string failures;       // why earlier ones did not do
    bool inconclusive = false;  // among them: this process's own failures, and silence
  };
  enum class Step : uint8_t { keep, drop, failed, made };

  void welcome(Port::Visitor& visitor, Events& events);
  Step advance(Pending& p, short revents, Events& events);
  Step advance_connected(Pending& p, Events& events);
  Step introduce(Pending& p, Dial& d);
  static void note_time(Pending& p);
  static void start_again(Dial& d);
  Step prove(Pending& p, Events& events);  // prove.cc
  Step read_hello(Pending& p, Events& events);
  Step read_go(Pending& p);
  Step read_fault(Pending& p, Events& events);
  // Fills p.bytes up to `size`; true when complete. False in *alive when the connection is gone.
  bool fill(Pending& p, size_t size, bool* alive);
  bool say_hello(const Pending& p, Purpose purpose) const;
  Status check_hello(const Hello& h, int rank) const;
  Status try_next(Dial& d, int64_t now);
  void run_dials(Events& events, int64_t now);
  void drop(const Address& peer, const char* why);
  void note_failure(int rank, const Address& address, const std::string& why);
  void tell(const Pending& winner);
  Dial* find_dial(int rank);

  const Config config_;
  std::vector<Pending> pending_;
  std::vector<Dial> dials_;
  std::vector<pollfd> polls_;
};

}  // namespace hocket::tcp
