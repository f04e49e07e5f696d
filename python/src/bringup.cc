#include "bringup.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <vector>

namespace hocket::pg {
namespace {

// What the callbacks share.
struct Notes {
  c10::intrusive_ptr<c10d::Store> clone;
  c10d::Store* store = nullptr;
  std::string prefix;
  std::string said;

  std::string name(const char* key) const { return prefix + key; }
  // 0, or 1 when the store throws: exceptions do not cross the C interface.
  template <class Body>
  int guarded(Body&& body) {
    try {
      return body();
    } catch (const std::exception& e) {
      said = e.what();
      return 1;
    }
  }
};

int put(void* ctx, const char* key, const void* value, size_t size) {
  Notes& n = *static_cast<Notes*>(ctx);
  return n.guarded([&] {
    const auto* const bytes = static_cast<const uint8_t*>(value);
    n.store->set(n.name(key), std::vector<uint8_t>(bytes, bytes + size));
    return 0;
  });
}

int get(void* ctx, const char* key, void* value, size_t* size) {
  Notes& n = *static_cast<Notes*>(ctx);
  return n.guarded([&] {
    const std::vector<uint8_t> bytes = n.store->get(n.name(key));
    if (!bytes.empty()) std::memcpy(value, bytes.data(), std::min(bytes.size(), *size));
    *size = bytes.size();
    return 0;
  });
}

// A store says that the time has passed by an exception, which is no failure of the store.
int wait(void* ctx, const char* key, int64_t timeout_ms) {
  constexpr int64_t kAsk = 1;  // shorter waits only ask
  Notes& n = *static_cast<Notes*>(ctx);
  const std::string name = n.name(key);
  return n.guarded([&] {
    if (n.store->check({name})) return 0;
    if (timeout_ms <= kAsk) return 1;
    try {
      n.store->wait({name}, std::chrono::milliseconds(timeout_ms));
      return 0;
    } catch (const std::exception&) {
      return n.store->check({name}) ? 0 : 1;
    }
  });
}

}  // namespace

hktResult_t meet(c10d::Store& store, const Place& place, const hktConfig_t& config, hktComm_t* comm,
                 std::string& text) {
  Notes notes;
  notes.store = &store;
  // A store that waits may hold its client's lock, for which other threads would wait. Stores written in Python cannot
  // be cloned.
  try {
    notes.clone = store.clone();
  } catch (const std::exception&) {
    notes.clone = nullptr;
  }
  if (notes.clone != nullptr) notes.store = notes.clone.get();
  const int failed = notes.guarded([&] {
    const int64_t times = notes.store->add("hocket/times/" + std::to_string(place.rank), 1);
    notes.prefix = "hocket/" + std::to_string(times) + "/";
    return 0;
  });
  if (failed != 0) {  // without a number of its own it would read the keys of an earlier group
    text = "the store cannot count the groups of rank " + std::to_string(place.rank) + ": " + notes.said;
    return hktSystemError;
  }
  const hktStore_t callbacks{sizeof callbacks, &notes, put, get, wait};
  const hktResult_t r = hktCommInitStore(comm, place.size, place.rank, &callbacks, &config);
  if (r != hktSuccess) {
    text = hktGetLastError();
    if (!notes.said.empty()) text += " (the store said: " + notes.said + ")";
  }
  return r;
}

}  // namespace hocket::pg
