// Proof of knowing the job's secret (secret.h), on a connection, before anything else is said on it. Each side sends 16
// random bytes and gets back a code that only who knows the secret can make of them:
//
//   the one that connects  challenge  "HKTS" | u8 1 | u8 kind | u16 0 | 16 random bytes C
//   the one that accepts   answer     head | 16 random bytes S | HMAC("hocket accepts" | C | S)
//   the one that connects  proof      head | HMAC("hocket connects" | C | S)
//   the one that accepts   welcome    head
// where "head" is the first eight bytes. In place of any of its messages a side may send a head of the kind `refusal`,
// whose u16 says why. So a process without a secret is told, too: it begins with another magic number.
//
//   sealed     head, with the length of what follows in the u16 | HMAC("hocket seals" | bytes) | at most kMaxSealed
//   bytes
// is for who cannot wait for an answer. It can be said again by who has heard it: its bytes must be of use but once.
//
// Nothing is encrypted, and nothing that follows is signed: who can change what others send can still do so
// (docs/security.md). One thread per object.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace hocket {

// Proofs that a listener has seen: who sends an old one once more is told so.
class SeenProofs {
 public:
  void add(std::string_view proof);
  bool has(std::string_view proof) const;

 private:
  static constexpr size_t kMost = 1024;
  std::deque<std::string> proofs_;
};

class Handshake {
 public:
  static constexpr size_t kMaxSealed = 1024;

  // `who` is the other side in messages: "rank 3 (10.0.0.1:4000)".
  static Handshake connecting(SharedSecret secret, std::string who);
  // `plain` is what a process of Hocket without a secret begins with, at least 4 bytes: it is told that it needs one,
  // any other stranger is not answered. `seen` must outlive the object.
  static Handshake accepting(SharedSecret secret, std::string who, std::string_view plain, SeenProofs* seen);

  // Moves on as far as that goes without waiting; true once each side knows that the other one has the secret. Reads
  // not a byte beyond that. hktInvalidUsage: one has refused the other, and said so; the text says why. hktRemoteError:
  // the connection has ended, or what is said is none of this.
  Result<bool> advance(int fd);

  // The same without a socket: what to send first; how many bytes are needed next, 0 at the end; what to say to them.
  // After an error `reply` is what to say before hanging up.
  std::string first() const { return first_; }
  size_t expects() const;
  // On the side that connects: they have proven that they know the secret, and have yet to say that they are content.
  bool other_is_known() const { return state_ == State::welcome; }
  Status take(std::string_view bytes, std::string& reply);

  // What a sealed message held, once it is complete.
  const std::string& sealed() const { return sealed_; }

 private:
  enum class State : uint8_t { challenge_head, challenge, seal, proof_head, proof, answer_head, answer, welcome, done };
  Handshake(SharedSecret secret, std::string who, State state)
      : secret_(std::move(secret)), who_(std::move(who)), state_(state) {}
  Status take_head(std::string_view bytes, std::string& reply);
  Status take_proof(std::string_view bytes, std::string& reply);
  Status take_answer(std::string_view bytes, std::string& reply);
  std::string nonces() const { return theirs_first_ ? theirs_ + mine_ : mine_ + theirs_; }

  SharedSecret secret_;
  std::string who_;
  State state_;
  SeenProofs* seen_ = nullptr;
  std::string plain_;
  bool theirs_first_ = false;  // who connects is first
  std::string mine_, theirs_;  // random bytes
  size_t seal_size_ = 0;
  std::string sealed_;
  std::string first_;
  std::optional<Error> failure_;  // why it could not even begin
  std::string in_;
  bool begun_ = false;
};

// `content` as a sealed message.
Result<std::string> seal(const Secret& secret, std::string_view content);
constexpr size_t kSealSize = 40;  // bytes in front of what is sealed

// So many refusals of a listener are warnings, the rest is for who asks: a stranger must not fill the log.
constexpr int kRefusalsToldOf = 8;

// For a process that has no secret. Do these bytes, which someone began with, come from one that has one?
bool is_of_secret(std::string_view bytes);
// What to answer to that.
std::string no_secret_here();
// Have we been refused? Then why.
std::optional<Error> refusal_in(std::string_view bytes, const std::string& who);

}  // namespace hocket
