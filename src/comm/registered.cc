#include "comm/registered.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "comm/pack.h"
#include "comm/roster.h"
#include "transport/regions.h"

namespace hocket {
namespace {

// What a rank says first: what it is about to do, and of its memory.
struct Offer {
  bool registers = true;   // false: gives up what `serial` is
  uint64_t serial = 0;     // of the registration
  MemorySpot spot;         // of 0 bytes: it gives none
  bool everything = true;  // takes every way past the copies
  std::string error;

  std::string pack() const {
    return Packer()
        .put(registers)
        .put(serial)
        .put(spot.process)
        .put(spot.pid)
        .put(spot.file)
        .put(spot.device)
        .put(spot.inode)
        .put(spot.offset)
        .put(spot.bytes)
        .put(spot.base)
        .put(everything)
        .text(error)
        .bytes();
  }
  bool unpack(const std::string& bytes) {
    Unpacker u(bytes);
    return u.get(registers) && u.get(serial) && u.get(spot.process) && u.get(spot.pid) && u.get(spot.file) &&
           u.get(spot.device) && u.get(spot.inode) && u.get(spot.offset) && u.get(spot.bytes) && u.get(spot.base) &&
           u.get(everything) && u.text(error, size_t{1} << 16) && u.done();
  }
};

Error garbled(size_t rank) {
  return error(hktRemoteError, "what rank %zu says of registered memory cannot be read", rank);
}

// What all ranks say: the same on all of them, and an error of one is one of all.
Result<std::vector<Offer>> hear(Exchange& exchange, const Offer& mine, int rank) {
  HKT_ASSIGN(const std::vector<std::string> said, exchange.all_gather(mine.pack()));
  std::vector<Offer> offers(said.size());
  for (size_t r = 0; r < said.size(); ++r)
    if (!offers[r].unpack(said[r])) return garbled(r);
  for (size_t r = 1; r < offers.size(); ++r)
    if (offers[r].registers != offers[0].registers || offers[r].serial != offers[0].serial)
      return error(hktInvalidUsage,
                   "rank 0 %s registration %llu and rank %zu %s registration %llu: all ranks register, and deregister, "
                   "the same in the same order",
                   offers[0].registers ? "makes" : "gives up", static_cast<unsigned long long>(offers[0].serial), r,
                   offers[r].registers ? "makes" : "gives up", static_cast<unsigned long long>(offers[r].serial));
  for (size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].error.empty()) continue;
    if (static_cast<int>(r) == rank) return error(hktInvalidArgument, "%s", offers[r].error.c_str());
    return error(hktInvalidArgument, "rank %zu cannot register its memory: %s", r, offers[r].error.c_str());
  }
  return offers;
}

}  // namespace

// The name that is free on all ranks: they have registered and given up the same in the same order.
Result<uint32_t> Communicator::free_name() const {
  for (uint32_t name = 0; name < kRegions; ++name)
    if (std::none_of(registered_.begin(), registered_.end(), [&](const Registered& r) { return r.name == name; }))
      return name;
  return error(hktInvalidUsage,
               "rank %d: %u registrations of this communicator are in use, the most that are possible; register more "
               "memory at a time",
               parts_.rank, kRegions);
}

Result<Registration> register_memory(Communicator& comm, void* p, uint64_t bytes) try {
  const Parts& parts = comm.parts();
  HKT_ASSIGN(const std::unique_ptr<Exchange> exchange, Exchange::of_all(comm, Meeting::memory, parts.timeout_ms));
  HKT_ASSIGN(const uint32_t name, comm.free_name());
  Regions* const regions = comm.regions();
  const uint64_t process = parts.roster != nullptr ? parts.roster->mate(parts.rank).token : 0;
  Offer mine;
  mine.serial = comm.registrations() + 1;
  mine.everything = parts.mapped && parts.direct;
  SharedMemory memory;
  if (bytes != 0) {
    Result<SharedMemory> found = shared_memory_at(p, bytes);
    const Region* const other = regions != nullptr ? regions->overlapping(p, bytes) : nullptr;
    if (!found.ok())
      mine.error = found.error().text;
    else if (other != nullptr)
      mine.error = format("the memory at %p overlaps what is registered already, %llu bytes at %p", p,
                          static_cast<unsigned long long>(other->bytes), static_cast<void*>(other->base));
    else
      memory = *found;
    if (mine.error.empty()) mine.spot = spot_of(memory, process);
  }
  HKT_ASSIGN(const std::vector<Offer> offers, hear(*exchange, mine, parts.rank));

  Region* const own = mine.spot.bytes != 0 && regions != nullptr ? &regions->add(name, memory) : nullptr;
  const auto near = [&](size_t r) { return parts.route[r] != nullptr && parts.route[r]->regions() == regions; };
  std::string reached(offers.size(), 0);
  for (size_t r = 0; r < offers.size(); ++r) {
    if (regions == nullptr || offers[r].spot.bytes == 0 || !near(r)) continue;
    const auto rank = static_cast<int>(r);
    const Status mapped = regions->map(rank, name, offers[r].spot, process);
    reached[r] = mapped.ok() ? 1 : 0;
    if (!mapped.ok())
      HKT_WARN(shm, (LogId{parts.rank, parts.nranks}),
               "memory that rank %d has registered cannot be mapped here, so its messages are copied: %s", rank,
               mapped.error().text.c_str());
  }
  HKT_ASSIGN(const std::vector<std::string> all, exchange->all_gather(reached));
  bool everywhere = std::all_of(offers.begin(), offers.end(), [](const Offer& o) { return o.everything; });
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() != offers.size()) return garbled(r);
    if (own != nullptr && near(r)) own->mapped[r] = static_cast<uint8_t>(all[r][static_cast<size_t>(parts.rank)]);
    for (size_t other = 0; other < all.size(); ++other) everywhere = everywhere && (r == other || all[r][other] != 0);
  }
  comm.keep_registered(name, everywhere);
  return mine.serial;
} catch (const std::exception& e) {
  return comm.threw(e, "registering memory");
}

Status deregister_memory(Communicator& comm, Registration registration) try {
  // Peers of a communicator that has failed do not come any more, and use nothing.
  if (comm.failed()) return comm.forget_registered(registration);
  HKT_ASSIGN(const std::unique_ptr<Exchange> exchange,
             Exchange::of_all(comm, Meeting::memory, comm.parts().timeout_ms));
  Offer mine;
  mine.registers = false;
  mine.serial = registration;
  HKT_ASSIGN(const std::vector<Offer> offers, hear(*exchange, mine, comm.rank()));
  return comm.forget_registered(registration);
} catch (const std::exception& e) {
  return comm.threw(e, "deregistering memory");
}

void Communicator::keep_registered(uint32_t name, bool everywhere) {
  registered_.push_back({++registrations_, name, everywhere});
  use_registered();
}

Status Communicator::forget_registered(uint64_t registration) {
  const auto found = std::find_if(registered_.begin(), registered_.end(),
                                  [&](const Registered& r) { return r.serial == registration; });
  if (found == registered_.end())
    return error(hktInvalidArgument, "rank %d: that is no registration of this communicator, or no longer one",
                 parts_.rank);
  if (regions_ != nullptr) regions_->remove(found->name);
  registered_.erase(found);
  use_registered();
  return {};
}

// Known to all ranks alike, so that all choose the same planners.
void Communicator::use_registered() {
  regions_in_use_ = registered_.empty() ? nullptr : regions_;
  const bool everywhere =
      std::any_of(registered_.begin(), registered_.end(), [](const Registered& r) { return r.everywhere; });
  if (everywhere && registered_table_ == nullptr) {
    select::Facts facts = parts_.facts;
    facts.registered = true;
    // It cannot fail: it could be built for private memory.
    auto table = select::build(facts, parts_.costs, parts_.algo, parts_.determinism);
    if (!table.ok()) throw std::runtime_error(table.error().text);
    registered_table_ = std::make_unique<select::Table>(std::move(*table));
  }
  current_table_ = everywhere ? registered_table_.get() : &table_;
}

}  // namespace hocket
