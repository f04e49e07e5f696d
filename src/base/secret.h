// The secret of a job, which its ranks share and strangers do not: what a process proves that it knows, without saying
// it (proof.h). It is in no message, log line or error. Immutable; any thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hocket {

class Secret {
 public:
  using Mac = std::array<char, 32>;
  static constexpr size_t kLeast = 16;   // bytes
  static constexpr size_t kMost = 4096;  // bytes

  // HOCKET_SECRET, or what is in the file that HOCKET_SECRET_FILE names, without a newline at its end; null if neither
  // is set. hktInvalidUsage: both are set, the secret is too short or too long, or the file is none of the user's own
  // with mode 0600. hktSystemError: libcrypto cannot be loaded.
  static Result<std::shared_ptr<const Secret>> from_environment();
  // `origin` is for messages. `libraries` are names of libcrypto, of which the first that loads is taken: tests have
  // none.
  static Result<std::shared_ptr<const Secret>> make(std::string bytes, const std::string& origin,
                                                    const std::vector<const char*>& libraries = known_libraries());
  static std::vector<const char*> known_libraries();

  ~Secret();
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  // HMAC-SHA256 (RFC 2104, FIPS 180-4) over `what`, with the secret as key.
  Result<Mac> mac(std::string_view what) const;
  // Is `proof` that code? Takes the same time wherever they differ.
  bool proves(std::string_view proof, std::string_view what) const;

 private:
  struct Crypto;
  Secret(std::string bytes, std::shared_ptr<const Crypto> crypto)
      : bytes_(std::move(bytes)), crypto_(std::move(crypto)) {}

  std::string bytes_;
  std::shared_ptr<const Crypto> crypto_;
};

using SharedSecret = std::shared_ptr<const Secret>;

}  // namespace hocket
