#include "base/secret.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/env.h"
#include "base/socket.h"
#include "base/text.h"

namespace hocket {

// The two functions of libcrypto that are needed; the same in OpenSSL 1.1 and 3.
struct Secret::Crypto {
  using Sha256 = const void* (*)();
  using Hmac = unsigned char* (*)(const void* kind, const void* key, int key_size, const unsigned char* data,
                                  size_t size, unsigned char* out, unsigned* out_size);
  Sha256 sha256 = nullptr;
  Hmac hmac = nullptr;

  // The library stays loaded: others of the process may have it, too.
  static Result<std::shared_ptr<const Crypto>> load(const std::vector<const char*>& libraries,
                                                    const std::string& origin) {
    std::string tried;
    for (const char* name : libraries) {
      void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      auto out = std::make_shared<Crypto>();
      if (library != nullptr) {
        out->sha256 = reinterpret_cast<Sha256>(dlsym(library, "EVP_sha256"));
        out->hmac = reinterpret_cast<Hmac>(dlsym(library, "HMAC"));
        if (out->sha256 != nullptr && out->hmac != nullptr) return std::shared_ptr<const Crypto>(std::move(out));
      }
      tried += (tried.empty() ? "" : ", ") + std::string(name);
    }
    return error(hktSystemError,
                 "%s is set, but libcrypto, which proves that a rank knows the secret, cannot be loaded (tried: %s): "
                 "install OpenSSL's library (libssl3 on Debian), or unset it on all ranks",
                 origin.c_str(), tried.empty() ? "nothing" : tried.c_str());
  }
};

namespace {

constexpr const char* kVariable = "HOCKET_SECRET";
constexpr const char* kFileVariable = "HOCKET_SECRET_FILE";

// The file's bytes, if nobody but this user can have read or written them.
Result<std::string> read_file(const std::string& path) {
  const std::string which = std::string(kFileVariable) + "=" + in_quotes(path);
  // O_NONBLOCK: opening a pipe must not wait for somebody who writes into it.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return error(hktInvalidUsage, "%s cannot be read: %s: name a file with the job's secret that this user can read",
                 which.c_str(), std::strerror(errno));
  }
  struct stat s {};
  if (fstat(fd.get(), &s) != 0) return sys_error("%s cannot be examined", which.c_str());
  if (!S_ISREG(s.st_mode)) return error(hktInvalidUsage, "%s is no regular file", which.c_str());
  if (s.st_uid != geteuid()) {
    return error(hktInvalidUsage,
                 "%s belongs to user %u, but this process is of user %u: the secret's file must be the user's own",
                 which.c_str(), s.st_uid, geteuid());
  }
  if (const mode_t mode = s.st_mode & 07777; mode != 0600 && mode != 0400) {
    return error(hktInvalidUsage,
                 "%s has mode %04o, and must have 0600 or 0400, so that nobody else can read it: chmod 600 %s",
                 which.c_str(), s.st_mode & 07777U, in_quotes(path).c_str());
  }
  std::string out(Secret::kMost + 2, '\0');
  size_t have = 0;
  while (have < out.size()) {
    const ssize_t n = read(fd.get(), out.data() + have, out.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("%s cannot be read", which.c_str());
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  out.resize(have);
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

}  // namespace

std::vector<const char*> Secret::known_libraries() { return {"libcrypto.so.3", "libcrypto.so.1.1"}; }

Result<std::shared_ptr<const Secret>> Secret::make(std::string bytes, const std::string& origin,
                                                   const std::vector<const char*>& libraries) {
  if (bytes.size() < kLeast || bytes.size() > kMost) {
    return error(hktInvalidUsage,
                 "the secret of %s has %s%zu bytes: use %zu to %zu that nobody can guess, such as those of "
                 "`openssl rand -hex 32`",
                 origin.c_str(), bytes.size() > kMost ? "more than " : "", std::min(bytes.size(), kMost), kLeast,
                 kMost);
  }
  HKT_ASSIGN(std::shared_ptr<const Crypto> crypto, Crypto::load(libraries, origin));
  std::shared_ptr<const Secret> made(new Secret(std::move(bytes), std::move(crypto)));
  HKT_TRY(made->mac(""));  // it may be there and refuse, as where only some ciphers are allowed
  return made;
}

Result<std::shared_ptr<const Secret>> Secret::from_environment() {
  // A script that lost the secret must not start a job that is open to everybody.
  for (const char* const name : {kVariable, kFileVariable}) {
    if (env::set_and_empty(name))
      return error(hktInvalidUsage, "%s is set and empty: give it the secret%s, or unset it", name,
                   name == kFileVariable ? "'s file" : "");
  }
  std::optional<std::string> bytes = env::get(kVariable);
  const std::optional<std::string> path = env::get(kFileVariable);
  if (bytes && path) {
    return error(hktInvalidUsage, "%s and %s are both set: unset one", kVariable, kFileVariable);
  }
  if (!bytes && !path) return std::shared_ptr<const Secret>();
  if (bytes) return make(*std::move(bytes), kVariable);
  HKT_ASSIGN(std::string content, read_file(*path));
  return make(std::move(content), std::string(kFileVariable) + "=" + in_quotes(*path));
}

Secret::~Secret() { explicit_bzero(bytes_.data(), bytes_.size()); }

Result<Secret::Mac> Secret::mac(std::string_view what) const {
  Mac out{};
  unsigned size = 0;
  const unsigned char* const made = crypto_->hmac(crypto_->sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
                                                  reinterpret_cast<const unsigned char*>(what.data()), what.size(),
                                                  reinterpret_cast<unsigned char*>(out.data()), &size);
  if (made == nullptr || size != out.size()) {
    return error(hktSystemError, "libcrypto refuses to compute HMAC-SHA256, which HOCKET_SECRET needs");
  }
  return out;
}

bool Secret::proves(std::string_view proof, std::string_view what) const {
  const Result<Mac> right = mac(what);
  if (!right || proof.size() != right.value().size()) return false;
  unsigned differs = 0;
  for (size_t i = 0; i < proof.size(); ++i) {
    differs |= static_cast<unsigned char>(proof[i]) ^ static_cast<unsigned char>(right.value()[i]);
  }
  return differs == 0;
}

}  // namespace hocket
