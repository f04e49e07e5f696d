// Connector: makes the one connection of each pair of ranks. Listens on this rank's addresses and on nothing else; of a
// pair the higher rank connects and the lower accepts. A peer's addresses are tried in order, the next one after 250 ms
// or at a failure, and the first that answers with the right hello is taken.
//
// Whoever comes to the listener without the job's nonce is a stray: it costs 56 bytes and a descriptor for at most 2 s,
// there are never more than a fixed number of them, and it gets no answer. Nothing here blocks. Not thread-safe.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/socket.h"
#include "transport/tcp/wire.h"

namespace hocket::tcp {

class Connector {
 public:
  struct Config {
    int rank = 0;
    int nranks = 1;
    uint64_t nonce = 0;
    Limits limits;
    LogId log;
  };
  static constexpr size_t kMaxAddresses = 16;  // of a rank
  static constexpr int64_t kNextAfterNs = 250'000'000;
  static constexpr int64_t kHelloNs = 5'000'000'000;     // the same once a connection stands and no hello has come
  static constexpr int64_t kConnectNs = 20'000'000'000;  // for one address to answer at all
  static constexpr int64_t kStrayNs = 2'000'000'000;     // for a hello to be complete
  static constexpr int64_t kEndedNs = 500'000'000;       // for a connection to overtake the end of a watch
  static constexpr size_t kMaxStrays = 64;               // without a hello at a time, beyond the number of ranks

  explicit Connector(const Config& config) : config_(config) {}

  // Binds one listener to each address (its port is ignored, a free one is taken). `epoll` will report all that needs
  // progress().
  Status listen(const std::vector<Address>& addresses, int epoll);
  // This rank's addresses with their ports, for parse_contact on other ranks.
  std::string contact() const;
  // An error says what is wrong with the bytes.
  static Result<std::vector<Address>> parse_contact(std::string_view bytes);

  // Starts to connect to `rank` (higher connects to lower), or to watch it (lower to higher). An error: this process
  // has no descriptor or memory for it; that no address answers shows in progress().
  Status dial(int rank, std::vector<Address> addresses, Purpose purpose);

  struct Made {
    int rank;
    Fd fd;
    Address peer;
  };
  struct Failed {
    int rank;  // who is to blame
    Error error;
  };
  struct Events {
    std::vector<Made> made;
    std::vector<Failed> failed;
  };
  // Accepts, connects, says hello and drops strays. Appends what has come of it.
  void progress(Events& events);
  // There is something under way that needs progress() soon.
  bool busy() const {
    return !dials_.empty() ||
           std::any_of(pending_.begin(), pending_.end(), [](const Pending& p) { return p.state != State::watched; });
  }
  // `rank` is connected: forgets all other attempts between it and this rank.
  void settle(int rank);

 private:
  enum class State : uint8_t {
    connecting,  // -> said
    said,        // we connected and said hello, theirs is awaited -> made
    accepted,    // they connected, their hello is awaited -> answered, watched
    answered,    // we answered, their choice is awaited -> made
    watching,    // we connected to see them end -> ended
    ended,       // they have; a connection of theirs that is still on its way would explain it
    watched,     // they connected to see us end
  };
  struct Pending {
    Fd fd;
    Address peer;
    int rank = -1;  // unknown while accepted
    State state = State::connecting;
    int64_t since = 0;
    size_t got = 0;
    std::array<unsigned char, sizeof(Hello)> bytes{};  // a Hello, or a Header
  };
  struct Dial {
    int rank = -1;
    Purpose purpose = Purpose::carry;
    std::vector<Address> addresses;
    size_t next = 0;  // address to try
    int64_t next_at = 0;
    std::string failures;       // why earlier ones did not do
    bool inconclusive = false;  // among them: this process's own failures, and silence
  };
  enum class Step : uint8_t { keep, drop, failed, made };

  void accept_all(Events& events, int64_t now);
  Step advance(Pending& p, short revents, Events& events);
  Step advance_connected(Pending& p);
  Step read_hello(Pending& p, Events& events);
  Step read_go(Pending& p);
  // Fills p.bytes up to `size`; true when complete. False in *alive when the connection is gone.
  bool fill(Pending& p, size_t size, bool* alive);
  bool say_hello(const Pending& p, Purpose purpose) const;
  Status check_hello(const Hello& h, int rank) const;
  Status try_next(Dial& d, int64_t now);
  void run_dials(Events& events, int64_t now);
  void drop(const Pending& p, const char* why);
  void note_failure(int rank, const Address& address, const std::string& why);
  Dial* find_dial(int rank);

  const Config config_;
  int epoll_ = -1;
  std::vector<Fd> listeners_;
  std::vector<Address> addresses_;  // of the listeners
  std::vector<Pending> pending_;
  std::vector<Dial> dials_;
  std::vector<pollfd> polls_;
};

}  // namespace hocket::tcp
