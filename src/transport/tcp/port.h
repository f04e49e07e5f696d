// Port: where a rank is reached: one listener per address, shared by a communicator and all that are made from it, so
// that those cost no listener and no new address. Each of them has a door, named by its nonce; whoever knocks with the
// right nonce is put before that door, whichever communicator's thread happens to look.
//
// Whoever comes without a nonce of a door is a stray: it costs a descriptor and a few hundred bytes, with a secret
// also a proof, for at most 2 s (for each step of that), there are never more than a fixed number of them, and it gets
// no answer but the proof's. Nothing here blocks. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/proof.h"
#include "base/result.h"
#include "base/routes.h"
#include "base/secret.h"
#include "base/socket.h"
#include "base/thread_annotations.h"
#include "transport/tcp/wire.h"

namespace hocket::tcp {

class Port {
 public:
  struct Config {
    int rank = 0;
    int nranks = 1;  // that may knock at once
    LogId log;
    std::vector<Net> nets = {};  // of this host, to connect from
    Bound bound = Bound::where_it_helps;
    SharedSecret secret = {};  // that visitors must prove to know before they say hello; null: none
  };
  // Somebody who knows the nonce of a door and has said hello.
  struct Visitor {
    Fd fd;
    Address peer;
    Hello hello;
    std::string early = {};  // what came sealed behind the hello
  };
  static constexpr size_t kMaxAddresses = 16;         // of a rank
  static constexpr int64_t kStrayNs = 2'000'000'000;  // for a hello to be complete
  static constexpr size_t kMaxStrays = 64;            // without a hello at a time, beyond the number of ranks

  // Binds one listener to each address (its port is ignored, a free one of HOCKET_PORT_RANGE is taken).
  static Result<std::shared_ptr<Port>> listen(const std::vector<Address>& addresses, const Config& config);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // This rank's addresses with their ports, for Connector::parse_contact on other ranks.
  std::string contact() const;
  // How to connect to a rank with these addresses.
  std::vector<Way> ways(const std::vector<Address>& addresses) const {
    return ways_to(addresses, config_.nets, config_.bound);
  }
  // Readable when receive() has something to do.
  int fd() const { return epoll_.get(); }

  // From now on visitors with this nonce are kept for receive(); `wake`, an eventfd, is written when another thread has
  // found one. Until close_door(), which a forked child must not call.
  void open_door(uint64_t nonce, int wake) HKT_EXCLUDES(mutex_);
  void close_door(uint64_t nonce) HKT_EXCLUDES(mutex_);
  // Accepts, reads hellos, drops strays; appends the visitors of this door. An error is this process's own, and what
  // came of the rest is there all the same.
  Status receive(uint64_t nonce, std::vector<Visitor>& visitors) HKT_EXCLUDES(mutex_);

 private:
  struct Stray {
    Fd fd;
    Address peer;
    int64_t since = 0;
    size_t got = 0;
    std::array<unsigned char, sizeof(Hello)> bytes{};
    std::optional<Handshake> proof = {};  // before the hello
    std::string early = {};
  };
  struct Door {
    int wake = -1;
    std::vector<Visitor> visitors;
  };
  enum class Step : uint8_t { keep, gone };

  Port(const Config& config, Fd epoll) : config_(config), epoll_(std::move(epoll)) {}
  Status add(const Address& address);
  Status accept_all(int64_t now) HKT_REQUIRES(mutex_);
  void read_all(uint64_t nonce, int64_t now) HKT_REQUIRES(mutex_);
  void drop_oldest() HKT_REQUIRES(mutex_);
  Step read(Stray& s, uint64_t nonce) HKT_REQUIRES(mutex_);
  // prove.cc
  void ask_for_proof(Stray& s) HKT_REQUIRES(mutex_);
  bool prove(Stray& s, Step* step) HKT_REQUIRES(mutex_);
  void tell_of_refusal(const std::string& why) HKT_REQUIRES(mutex_);
  bool tell_of_secret(const Stray& s) HKT_REQUIRES(mutex_);
  void drop(const Stray& s, const char* why) const;

  const Config config_;
  const Fd epoll_;                  // listeners and strays
  std::vector<Fd> listeners_;       // these two only change in listen()
  std::vector<Address> addresses_;  // of the listeners
  Mutex mutex_;
  SeenProofs seen_ HKT_GUARDED_BY(mutex_);
  int refusals_ HKT_GUARDED_BY(mutex_) = 0;
  std::vector<Stray> strays_ HKT_GUARDED_BY(mutex_);
  std::map<uint64_t, Door> doors_ HKT_GUARDED_BY(mutex_);  // by nonce
};

}  // namespace hocket::tcp
