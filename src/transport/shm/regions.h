// Regions: the memory that the ranks of a group have registered. Who registers writes an entry into the group's shared
// memory; the others find it there when they begin a large call, map the file behind it and say so; from then on
// messages of this memory need not travel in slots. Nobody waits for anybody: until a peer has mapped a region, or if
// it cannot, its messages go as those of private memory do.
//
// Used by the communicator's thread alone.
#pragma once

#include <memory>
#include <vector>

#include "transport/memory.h"
#include "transport/shm/segment.h"

namespace hocket::shm {

class Regions final : public Registry {
 public:
  Regions(std::shared_ptr<Segment> segment, const GroupConfig& config);
  ~Regions() override;
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  Result<const Region*> add(const SharedMemory& memory) override;
  void remove(const Region& region) override;
  const Region* find(const void* p, uint64_t bytes) const override;
  bool in_use() override {
    if (segment_->header().regions.load(std::memory_order_acquire) != known_) [[unlikely]]
      refresh();
    return known_ != 0;
  }

  // Where the regions of this rank, or of a peer (by index in the group), are in this process: valid as long as this.
  const RegionBases* own() const { return &own_bases_; }
  const RegionBases* of(int index);

 private:
  struct Peer {
    RegionBases bases{};
    struct Mapped {
      uint64_t generation = 0;
      void* begin = nullptr;  // of the mapping; null: not mapped, or memory of this process
      uint64_t bytes = 0;
      std::shared_ptr<const void> pages;  // of this process: peers here may still be at work when it is freed
    };
    std::array<Mapped, kRegions> mapped;
  };
  struct Own {
    Region region;
    SharedMemory memory;
    uint64_t generation = 0;
  };
  // Maps what is new of the others, forgets what is gone, and sees who has mapped what of this rank's. System calls.
  void refresh();
  Peer& peer(int index);
  uint64_t change() { return segment_->header().regions.fetch_add(1, std::memory_order_acq_rel) + 1; }
  Status reserve();
  bool refresh_peer(int index);
  Status map(int index, uint32_t region, uint64_t generation, Peer::Mapped& mapped);
  void forget(int index, uint32_t region);
  void see_who_has_mapped();

  const std::shared_ptr<Segment> segment_;
  const GroupConfig config_;
  const int me_;
  uint64_t known_ = 0;     // Header::regions at the last refresh
  bool reserved_ = false;  // my table
  std::vector<std::unique_ptr<Own>> own_;
  RegionBases own_bases_{};
  std::vector<std::unique_ptr<Peer>> peers_;  // by index
};

}  // namespace hocket::shm
