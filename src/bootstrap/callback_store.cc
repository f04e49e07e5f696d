#include "bootstrap/callback_store.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

// How long a wait goes on before the key of a published error is looked at, and the shortest wait, which asks whether a
// key exists (0 means "for ever" in some stores).
constexpr int kSliceMs = 100;
constexpr int kAskMs = 1;

class CallbackStore final : public Store {
 public:
  explicit CallbackStore(const hktStore_t& callbacks) : callbacks_(callbacks) {}

  Status put(std::string_view key, std::string_view value) override {
    if (key.size() > kMaxKey || value.size() > kMaxValue) {
      return error(hktInternalError, "a value of %zu bytes under %s is too long for bring-up (at most %zu)",
                   value.size(), in_quotes(key).c_str(), kMaxValue);
    }
    if (auto failure = published()) return *std::move(failure);
    const std::string name = full(key);
    // Asked first, for a store may overwrite in silence.
    if (exists(name)) return error(hktInvalidUsage, "key %s exists already", in_quotes(name).c_str());
    const int rc = callbacks_.put(callbacks_.ctx, name.c_str(), value.data(), value.size());
    if (rc == 0) {
      last_name_ = name;
      last_value_ = value;
      return {};
    }
    if (exists(name)) return error(hktInvalidUsage, "key %s exists already", in_quotes(name).c_str());
    return error(hktSystemError, "the put callback of the store returned %d for key %s", rc, in_quotes(name).c_str());
  }

  Result<Found> get(const std::vector<std::string>& keys, Deadline deadline) override {
    Found out;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string name = full(keys[i]);
      bool here = false;
      do {
        // Past the deadline the rest is only asked for, so that all that is absent can be named.
        here = callbacks_.wait(callbacks_.ctx, name.c_str(), std::max(kAskMs, deadline.left_ms(kSliceMs))) == 0;
        if (here) break;
        if (auto failure = published()) return *std::move(failure);
        HKT_TRY(check_last_put());
      } while (!deadline.passed());
      if (!here) {
        out.missing.push_back(static_cast<int>(i));
        continue;
      }
      HKT_ASSIGN(std::string value, read(name));
      out.values.push_back(std::move(value));
    }
    if (!out.missing.empty()) out.values.clear();
    return out;
  }

  void fail(const Error& failure) override {
    const std::string name = full(kFailure);
    if (exists(name)) return;
    const std::string bytes = wire::pack_error(failure);
    callbacks_.put(callbacks_.ctx, name.c_str(), bytes.data(), bytes.size());
  }

  Status leave(Deadline) override { return {}; }

 private:
  static constexpr std::string_view kFailure = "failure";

  static std::string full(std::string_view key) { return "hocket/" + std::string(key); }
  bool exists(const std::string& name) { return callbacks_.wait(callbacks_.ctx, name.c_str(), kAskMs) == 0; }

  std::optional<Error> published() {
    const std::string name = full(kFailure);
    if (!exists(name)) return std::nullopt;
    Result<std::string> bytes = read(name);
    return bytes ? wire::unpack_error(*bytes) : std::move(bytes.error());
  }

  // In a store that overwrites, two processes that put at the same moment see it afterwards only.
  Status check_last_put() {
    if (last_name_.empty()) return {};
    HKT_ASSIGN(const std::string now, read(last_name_));
    if (now == last_value_) return {};
    return error(hktInvalidUsage, "two processes wrote the key %s of the store: have two the same rank?",
                 in_quotes(last_name_).c_str());
  }

  Result<std::string> read(const std::string& name) {
    std::string value(4096, '\0');
    for (int tries = 0; tries < 2; ++tries) {
      size_t size = value.size();
      if (const int rc = callbacks_.get(callbacks_.ctx, name.c_str(), value.data(), &size); rc != 0) {
        return error(hktSystemError, "the get callback of the store returned %d for key %s", rc,
                     in_quotes(name).c_str());
      }
      const bool whole = size <= value.size();
      if (size > kMaxValue) break;
      value.resize(size);
      if (whole) return value;
    }
    return error(hktRemoteError, "the value of key %s in the store changes or is too long", in_quotes(name).c_str());
  }

  const hktStore_t callbacks_;
  std::string last_name_;
  std::string last_value_;
};

}  // namespace

Result<std::unique_ptr<Store>> make_callback_store(const hktStore_t& callbacks) {
  if (callbacks.put == nullptr || callbacks.get == nullptr || callbacks.wait == nullptr) {
    return error(hktInvalidArgument, "a callback of the store is null: put, get and wait are all needed");
  }
  return std::unique_ptr<Store>(std::make_unique<CallbackStore>(callbacks));
}

}  // namespace hocket
