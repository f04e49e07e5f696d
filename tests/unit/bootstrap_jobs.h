// Whole jobs for tests of bring-up: a place of each kind to meet at, and ranks as threads.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "bootstrap/rendezvous.h"

namespace hocket::bringup {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A store as a user may give one: a map in memory.
class MemoryStore {
 public:
  // Some stores refuse a key that exists, some overwrite it.
  enum class Twice : uint8_t { refuse, overwrite };
  explicit MemoryStore(Twice twice) : twice_(twice) {}

  // What somebody in between does to what is stored; false: it gets lost. Any thread.
  std::function<bool(const std::string& key, std::string& value)> on_put;

  hktStore_t callbacks() {
    hktStore_t out{};
    out.size = sizeof out;
    out.ctx = this;
    out.put = [](void* ctx, const char* key, const void* value, size_t size) {
      auto* self = static_cast<MemoryStore*>(ctx);
      const std::lock_guard lock(self->mutex_);
      if (self->twice_ == Twice::refuse && self->values_.count(key) != 0) return 1;
      std::string bytes(static_cast<const char*>(value), size);
      if (self->on_put != nullptr && !self->on_put(key, bytes)) return 0;
      self->values_[key] = std::move(bytes);
      self->changed_.notify_all();
      return 0;
    };
    out.get = [](void* ctx, const char* key, void* value, size_t* size) {
      auto* self = static_cast<MemoryStore*>(ctx);
      const std::lock_guard lock(self->mutex_);
      const auto found = self->values_.find(key);
      if (found == self->values_.end()) return 1;
      found->second.copy(static_cast<char*>(value), *size);
      *size = found->second.size();
      return 0;
    };
    out.wait = [](void* ctx, const char* key, int64_t timeout_ms) {
      auto* self = static_cast<MemoryStore*>(ctx);
      std::unique_lock lock(self->mutex_);
      const auto here = [&]() { return self->values_.count(key) != 0; };
      // Not wait_for: TSan of GCC 12 does not know the call behind it.
      return self->changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms),
                                       here)
                 ? 0
                 : 1;
    };
    return out;
  }

 private:
  const Twice twice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

inline uint16_t free_port() {
  const auto listener = listen_on(Address::loopback(Family::v4, 0));
  return local_address(listener.value().get()).value().port();
}

inline Identity identity_at(int rank, int nranks, const std::string& url) {
  Identity out;
  out.rank = rank;
  out.nranks = nranks;
  out.url = url;
  return out;
}

enum class Kind : uint8_t { tcp, file, unique_id, callbacks_refuse, callbacks_overwrite };

// One place where the ranks of one job meet.
class Place {
 public:
  explicit Place(Kind kind)
      : kind_(kind),
        memory_(kind == Kind::callbacks_refuse ? MemoryStore::Twice::refuse : MemoryStore::Twice::overwrite) {
    static std::atomic<int> counter{0};
    if (kind == Kind::tcp) url_ = "tcp://127.0.0.1:" + std::to_string(free_port());
    path_ = testing::TempDir() + "/rendezvous." + std::to_string(getpid()) + "." + std::to_string(counter++);
    if (kind == Kind::file) url_ = "file://" + path_;
    if (kind == Kind::unique_id) {
      EXPECT_TRUE(make_unique_id(&id_).ok());
    }
  }

  Result<std::unique_ptr<Rendezvous>> open(int rank, int nranks, Deadline deadline,
                                           const RendezvousOptions& options = {}) {
    switch (kind_) {
      case Kind::tcp:
      case Kind::file:
        return Rendezvous::open(identity_at(rank, nranks, url_), deadline, options);
      case Kind::unique_id:
        return Rendezvous::open(id_, nranks, rank, deadline, options);
      case Kind::callbacks_refuse:
      case Kind::callbacks_overwrite:
        break;
    }
    return Rendezvous::open(memory_.callbacks(), nranks, rank, deadline, options);
  }

  const std::string& url() const { return url_; }
  const std::string& path() const { return path_; }
  uint16_t port() const { return parse_host_port(url_.substr(6)).value().port; }

 private:
  const Kind kind_;
  std::string url_;
  std::string path_;
  hktUniqueId id_{};
  MemoryStore memory_;
};

// What one process of a job is told and does; the error text it got, "" for none.
struct Process {
  int rank = 0;
  int nranks = 1;
  int after_ms = 0;  // comes later
  RendezvousOptions options = {};
  std::function<Status(Rendezvous&)> body = [](Rendezvous& r) { return r.leave(); };
};

inline std::vector<std::string> run(Place& place, const std::vector<Process>& processes, int deadline_ms) {
  std::vector<std::string> errors(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i]() {
      const Process& p = processes[i];
      std::this_thread::sleep_for(std::chrono::milliseconds(p.after_ms));
      auto rendezvous = place.open(p.rank, p.nranks, Deadline::in_ms(deadline_ms), p.options);
      if (!rendezvous) {
        errors[i] = rendezvous.error().text;
        return;
      }
      const Status status = p.body(**rendezvous);
      if (!status.ok()) errors[i] = status.error().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<Process> processes(const std::vector<int>& ranks, int nranks) {
  std::vector<Process> out;
  for (const int rank : ranks) out.push_back({rank, nranks});
  return out;
}

inline std::vector<int> up_to(int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}

inline void expect_all_say(const std::vector<std::string>& errors, const std::string& part) {
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, part)) << "'" << error << "' lacks: " << part;
}

}  // namespace hocket::bringup
