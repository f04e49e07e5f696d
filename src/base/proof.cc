#include "base/proof.h"

#include <algorithm>

#include "base/random.h"
#include "base/socket.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "HKTS";
constexpr char kVersion = 1;
constexpr size_t kHead = 8;
constexpr size_t kNonce = 16;
constexpr size_t kMac = std::tuple_size_v<Secret::Mac>;
static_assert(kSealSize == kHead + kMac);

constexpr std::string_view kAccepts = "hocket accepts", kConnects = "hocket connects", kSeals = "hocket seals";

enum class Kind : uint8_t { challenge = 1, answer = 2, proof = 3, welcome = 4, refusal = 5, sealed = 6 };
// Why the sender of a refusal refuses the other side.
enum class Why : uint16_t { no_secret = 1, has_secret = 2, other_secret = 3, replay = 4 };

std::string head(Kind kind, uint16_t extra = 0) {
  std::string out(kMagic);
  out += kVersion;
  out += static_cast<char>(kind);
  out += static_cast<char>(extra & 255);
  out += static_cast<char>(extra >> 8);
  return out;
}
std::string refuse(Why why) { return head(Kind::refusal, static_cast<uint16_t>(why)); }

struct Head {
  bool ours = false;
  Kind kind{};
  uint16_t extra = 0;
};
Head parse(std::string_view bytes) {
  Head out;
  out.ours = bytes.size() >= kHead && bytes.substr(0, kMagic.size()) == kMagic && bytes[4] == kVersion;
  if (!out.ours) return out;
  out.kind = static_cast<Kind>(bytes[5]);
  out.extra = static_cast<uint16_t>(static_cast<unsigned char>(bytes[6]) | static_cast<unsigned char>(bytes[7]) << 8);
  return out;
}

// What a refusal means to the one that is refused.
Error refused(uint16_t why, const std::string& who) {
  constexpr const char* kFix = "give all ranks the same HOCKET_SECRET, or the same HOCKET_SECRET_FILE";
  switch (static_cast<Why>(why)) {
    case Why::no_secret:
      return error(hktInvalidUsage, "%s has a job secret, and this process has none: %s", who.c_str(), kFix);
    case Why::has_secret:
      return error(hktInvalidUsage, "this process has a job secret, and %s has none: %s", who.c_str(), kFix);
    case Why::other_secret:
      return error(hktInvalidUsage, "%s has another job secret than this process: %s", who.c_str(), kFix);
    case Why::replay:
      return error(hktInvalidUsage, "%s has heard this process's proof before, on another connection: it is a replay",
                   who.c_str());
  }
  return error(hktInvalidUsage, "%s refuses this process, for a reason that another version knows", who.c_str());
}

std::string_view view(const Secret::Mac& mac) { return {mac.data(), mac.size()}; }
std::string labelled(std::string_view label, std::string_view what) { return std::string(label) + std::string(what); }

}  // namespace

void SeenProofs::add(std::string_view proof) {
  if (proofs_.size() == kMost) proofs_.pop_front();
  proofs_.emplace_back(proof);
}
bool SeenProofs::has(std::string_view proof) const {
  return std::find(proofs_.begin(), proofs_.end(), proof) != proofs_.end();
}

Handshake Handshake::connecting(SharedSecret secret, std::string who) {
  Handshake h(std::move(secret), std::move(who), State::answer_head);
  Result<std::string> mine = random_bytes(kNonce);
  if (!mine) {
    h.failure_ = std::move(mine.error());
    return h;
  }
  h.mine_ = std::move(*mine);
  h.first_ = head(Kind::challenge) + h.mine_;
  return h;
}

Handshake Handshake::accepting(SharedSecret secret, std::string who, std::string_view plain, SeenProofs* seen) {
  Handshake h(std::move(secret), std::move(who), State::challenge_head);
  h.seen_ = seen;
  h.plain_ = plain.substr(0, kHead);
  h.theirs_first_ = true;
  return h;
}

size_t Handshake::expects() const {
  switch (state_) {
    case State::challenge_head:
    case State::proof_head:
    case State::answer_head:
    case State::welcome:
      return kHead;
    case State::challenge:
      return kNonce;
    case State::seal:
      return kMac + seal_size_;
    case State::proof:
      return kMac;
    case State::answer:
      return kNonce + kMac;
    case State::done:
      break;
  }
  return 0;
}

Status Handshake::take(std::string_view bytes, std::string& reply) {
  reply.clear();
  if (failure_) return *failure_;
  switch (state_) {
    case State::challenge_head:
    case State::proof_head:
    case State::answer_head:
    case State::welcome:
      return take_head(bytes, reply);
    case State::challenge: {
      theirs_ = bytes;
      HKT_ASSIGN(mine_, random_bytes(kNonce));
      HKT_ASSIGN(const Secret::Mac mac, secret_->mac(labelled(kAccepts, nonces())));
      reply = head(Kind::answer) + mine_ + std::string(view(mac));
      state_ = State::proof_head;
      return {};
    }
    case State::seal: {
      const std::string_view content = bytes.substr(kMac);
      if (!secret_->proves(bytes.substr(0, kMac), labelled(kSeals, content))) {
        reply = refuse(Why::other_secret);
        return error(hktInvalidUsage, "%s has another job secret than this process", who_.c_str());
      }
      sealed_ = content;
      state_ = State::done;
      return {};
    }
    case State::proof:
      return take_proof(bytes, reply);
    case State::answer:
      return take_answer(bytes, reply);
    case State::done:
      break;
  }
  return error(hktInternalError, "a proof that is over");
}

Status Handshake::take_head(std::string_view bytes, std::string& reply) {
  const Head h = parse(bytes);
  if (state_ == State::challenge_head && bytes.substr(0, plain_.size()) == plain_) {
    reply = refuse(Why::no_secret);
    return error(hktInvalidUsage, "%s shows no job secret, and this process has one", who_.c_str());
  }
  if (!h.ours) return error(hktRemoteError, "%s does not show that it knows the job secret", who_.c_str());
  if (h.kind == Kind::refusal) return refused(h.extra, who_);
  if (state_ == State::challenge_head && h.kind == Kind::challenge) {
    state_ = State::challenge;
  } else if (state_ == State::challenge_head && h.kind == Kind::sealed && h.extra > 0 && h.extra <= kMaxSealed) {
    seal_size_ = h.extra;
    state_ = State::seal;
  } else if (state_ == State::proof_head && h.kind == Kind::proof) {
    state_ = State::proof;
  } else if (state_ == State::answer_head && h.kind == Kind::answer) {
    state_ = State::answer;
  } else if (state_ == State::welcome && h.kind == Kind::welcome) {
    state_ = State::done;
  } else {
    return error(hktRemoteError, "%s says what is no part of a proof", who_.c_str());
  }
  return {};
}

Status Handshake::take_proof(std::string_view bytes, std::string& reply) {
  if (!secret_->proves(bytes, labelled(kConnects, nonces()))) {
    const bool replay = seen_->has(bytes);
    reply = refuse(replay ? Why::replay : Why::other_secret);
    if (replay) {
      return error(hktInvalidUsage, "%s repeats a proof that was heard on another connection: it is a replay",
                   who_.c_str());
    }
    return error(hktInvalidUsage, "%s has another job secret than this process", who_.c_str());
  }
  seen_->add(bytes);
  reply = head(Kind::welcome);
  state_ = State::done;
  return {};
}

Status Handshake::take_answer(std::string_view bytes, std::string& reply) {
  theirs_ = bytes.substr(0, kNonce);
  if (!secret_->proves(bytes.substr(kNonce), labelled(kAccepts, nonces()))) {
    reply = refuse(Why::other_secret);
    return refused(static_cast<uint16_t>(Why::other_secret), who_);
  }
  HKT_ASSIGN(const Secret::Mac mac, secret_->mac(labelled(kConnects, nonces())));
  reply = head(Kind::proof) + std::string(view(mac));
  state_ = State::welcome;
  return {};
}

Result<bool> Handshake::advance(int fd) {
  // The few bytes of either side always fit into a new connection.
  const auto say = [&](const std::string& bytes) -> Status {
    if (bytes.empty()) return {};
    HKT_ASSIGN(const size_t sent, send_some(fd, bytes.data(), bytes.size()));
    return sent == bytes.size() ? Status() : Status(error(hktRemoteError, "%s takes nothing", who_.c_str()));
  };
  if (failure_) return *failure_;
  if (!std::exchange(begun_, true)) HKT_TRY(say(first_));
  while (expects() != 0) {
    const size_t have = in_.size();
    in_.resize(expects());
    Result<size_t> got = recv_some(fd, in_.data() + have, in_.size() - have);
    in_.resize(have + (got ? *got : 0));
    if (!got) return std::move(got.error());
    if (*got == 0) return false;
    if (in_.size() < expects()) continue;
    std::string reply;
    Status taken = take(in_, reply);
    in_.clear();
    if (!taken) {
      (void)say(reply).ok();
      // Were anything left unread, closing would take back what was just said.
      char rest[4096];
      for (int i = 0; i < 16; ++i) {
        const Result<size_t> more = recv_some(fd, rest, sizeof rest);
        if (!more || more.value() == 0) break;
      }
      return std::move(taken.error());
    }
    HKT_TRY(say(reply));
  }
  return true;
}

Result<std::string> seal(const Secret& secret, std::string_view content) {
  HKT_ASSIGN(const Secret::Mac mac, secret.mac(labelled(kSeals, content)));
  return head(Kind::sealed, static_cast<uint16_t>(content.size())) + std::string(view(mac)) + std::string(content);
}

bool is_of_secret(std::string_view bytes) { return bytes.substr(0, kMagic.size()) == kMagic; }

std::string no_secret_here() { return refuse(Why::has_secret); }

std::optional<Error> refusal_in(std::string_view bytes, const std::string& who) {
  const Head h = parse(bytes);
  if (!h.ours || h.kind != Kind::refusal) return std::nullopt;
  return refused(h.extra, who);
}

}  // namespace hocket
