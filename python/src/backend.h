// The back end that torch sees: checks tensors, gives Hocket buffers it can use, and hands out works.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "group.h"

namespace hocket::pg {

constexpr const char* kBackend = "hocket";

struct HocketOptions final : c10d::Backend::Options {
  explicit HocketOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout)
      : c10d::Backend::Options(kBackend, limit) {}
  std::string transport;    // "auto", "shm", "tcp"; empty: HOCKET_TRANSPORT
  int64_t determinism = 0;  // 1 to 4: docs/determinism.md; 0: HOCKET_DETERMINISM
};

class HocketBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Ms = std::chrono::milliseconds;

  // Blocks until all ranks are there.
  static c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& about,
                                                  const c10::intrusive_ptr<HocketOptions>& options);
  HocketBackend(const c10d::DistributedBackendOptions& about, c10::intrusive_ptr<HocketOptions> options);
  ~HocketBackend() override;

  const std::string getBackendName() const override { return kBackend; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(Ms timeout) override;
  c10d::ErrorType getError() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return group_->sequence(); }
  void abort() override { group_->abort(); }
  void shutdown() override { group_->close(); }

  // --- collectives.cc
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) override;
  Work allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& o) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& o) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& o) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& o) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& o) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override;
  // --- lists.cc
  Work allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override;
  Work allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override;
  Work gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& o) override;
  Work scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& o) override;
  Work reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& o) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& o) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override;
  // --- backend.cc
  Work send(Tensors& tensors, int peer, int tag) override;
  Work recv(Tensors& tensors, int peer, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& o) override;
  void monitoredBarrier(const c10d::BarrierOptions& o, bool wait_all_ranks) override;

 private:
  Work receive(Tensors& tensors, int peer, int tag, c10d::OpType type);
  Job job(c10d::OpType type, const char* title, Ms timeout, bool async) const;
  void check_root(const char* name, int64_t root) const;

  const c10::intrusive_ptr<HocketOptions> options_;
  const std::shared_ptr<Group> group_;
};

}  // namespace hocket::pg
