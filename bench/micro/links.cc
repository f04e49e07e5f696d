// Messages between two ranks: through a slot and back. On one thread that is what the instructions of both ends cost,
// between two it is the way of the cache lines as well, and over TCP the way through the kernel.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "comm/bringup.h"
#include "comm/communicator.h"
#include "instructions.h"
#include "parts.h"
#include "transport/link.h"

namespace hocket::bench {
namespace {

constexpr uint32_t kSignature = 5;
constexpr RingGeometry kRings{8, 128 * 1024, 4};

// One end of a link each way, and the message.
struct End {
  Link out, in;
  std::vector<unsigned char> message;

  void send() {
    std::memcpy(out.push_begin(message.size()), message.data(), message.size());
    out.push(message.size(), kSignature);
  }
  void receive() {
    std::memcpy(message.data(), in.pop_begin(message.size()), message.size());
    in.pop();
  }
};

struct alignas(64) Line {
  unsigned char bytes[64];
};

// Two ends in this process.
class Pair {
 public:
  explicit Pair(size_t bytes) {
    for (auto& ring : rings_) ring.resize(kRings.bytes() / sizeof(Line) + 1);
    for (size_t e = 0; e < 2; ++e) {
      ends[e].out = Link(setup(e));
      ends[e].in = Link(setup(1 - e));
      ends[e].message.resize(bytes);
    }
  }
  std::array<End, 2> ends;

 private:
  Link::Setup setup(size_t ring) {
    Link::Setup s;
    s.ring = rings_[ring].data()->bytes;
    s.geometry = kRings;
    return s;
  }
  std::array<std::vector<Line>, 2> rings_;
};

void on_one_thread(benchmark::State& state) {
  Pair pair(static_cast<size_t>(state.range(0)));
  End &a = pair.ends[0], &b = pair.ends[1];
  bool good = true;
  measure(state, [&] {
    good = good && a.out.push_ready();
    a.send();
    good = good && b.in.pop_ready(kSignature);
    b.receive();
    good = good && b.out.push_ready();
    b.send();
    good = good && a.in.pop_ready(kSignature);
    a.receive();
  });
  if (!good) state.SkipWithError("a message was not there");
}

// Sends back what comes, until told to stop.
void echo(End& end, const std::atomic<bool>& over, const std::function<void()>& progress) {
  for (;;) {
    while (!end.in.pop_ready(kSignature)) {
      if (over.load(std::memory_order_relaxed)) return;
      progress();
    }
    end.receive();
    while (!end.out.push_ready()) progress();
    end.send();
  }
}

void round_trips(benchmark::State& state, End& end, const std::function<void()>& progress) {
  measure(state, [&] {
    while (!end.out.push_ready()) progress();
    end.send();
    while (!end.in.pop_ready(kSignature)) progress();
    end.receive();
  });
}

void between_threads(benchmark::State& state) {
  Pair pair(static_cast<size_t>(state.range(0)));
  std::atomic<bool> over = false;
  const auto nothing = [] {};
  std::thread other([&] { echo(pair.ends[1], over, nothing); });
  round_trips(state, pair.ends[0], nothing);
  over = true;
  other.join();
}

// Rank `rank` of two, connected by TCP; null, with a line on stderr, if that cannot be.
std::unique_ptr<Communicator> come_up(const hktUniqueId& id, int rank) {
  CommSettings settings;
  settings.transport = "tcp";
  const Deadline deadline = Deadline::in_ms(10'000);
  auto rendezvous = Rendezvous::open(id, 2, rank, deadline);
  if (!rendezvous.ok()) {
    std::fprintf(stderr, "hocket-micro: %s\n", rendezvous.error().text.c_str());
    return nullptr;
  }
  auto comm = bring_up(**rendezvous, settings, deadline);
  if (comm.ok()) return std::move(*comm);
  std::fprintf(stderr, "hocket-micro: %s\n", comm.error().text.c_str());
  return nullptr;
}

// The communicator's own transport, before the communicator has used any of its links.
bool open(Communicator& comm, size_t bytes, End& end) {
  const int peer = 1 - comm.rank();
  Transport& t = *comm.parts().route[static_cast<size_t>(peer)];
  Result<Link> out = t.open_send(peer, 0), in = t.open_recv(peer, 0);
  if (!out.ok() || !in.ok()) return false;
  end.out = *out;
  end.in = *in;
  end.message.resize(bytes);
  return true;
}

void over_tcp(benchmark::State& state) {
  hktUniqueId id;
  if (!make_unique_id(&id).ok()) return state.SkipWithError("no unique id");
  const auto bytes = static_cast<size_t>(state.range(0));
  std::atomic<bool> over = false;
  std::thread other([&] {
    const auto comm = come_up(id, 1);
    End end;
    if (comm == nullptr || !open(*comm, bytes, end)) return;
    echo(end, over, [&] { comm->parts().route[0]->progress(); });
  });
  const auto comm = come_up(id, 0);
  End end;
  if (comm == nullptr || !open(*comm, bytes, end)) {
    state.SkipWithError("no link");
  } else {
    round_trips(state, end, [&] { comm->parts().route[1]->progress(); });
  }
  over = true;
  other.join();
}

}  // namespace

void add_links() {
  const auto add = [](const char* name, void (*body)(benchmark::State&)) {
    auto* const b = benchmark::RegisterBenchmark(name, body);
    b->UseRealTime();
    for (const int64_t bytes : {8, 56, 1024, 64 * 1024}) b->Arg(bytes);
  };
  add("round_trip/slot/one_thread", on_one_thread);
  add("round_trip/slot/two_threads", between_threads);
  add("round_trip/tcp", over_tcp);
}

}  // namespace hocket::bench
