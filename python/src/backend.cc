#include "backend.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "buffers.h"

namespace hocket::pg {

using c10d::OpType;
using Work = HocketBackend::Work;

namespace {

Group::Spec spec_of(const c10d::DistributedBackendOptions& about, const HocketOptions& options) {
  TORCH_CHECK(options.determinism >= 0 && options.determinism <= 4,
              "hocket: invalid argument in init_process_group: determinism is ", options.determinism,
              ", must be 1 to 4, or 0 for HOCKET_DETERMINISM");
  Group::Spec spec;
  spec.rank = about.group_rank;
  spec.size = about.group_size;
  spec.name = about.group_id;
  spec.global_ranks = about.global_ranks_in_group;
  spec.timeout = std::chrono::duration_cast<Milliseconds>(about.timeout);
  spec.transport = options.transport;
  spec.determinism = static_cast<uint32_t>(options.determinism);
  return spec;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> HocketBackend::create(const c10d::DistributedBackendOptions& about,
                                                        const c10::intrusive_ptr<HocketOptions>& options) {
  return c10::make_intrusive<HocketBackend>(
      about, options != nullptr
                 ? options
                 : c10::make_intrusive<HocketOptions>(std::chrono::duration_cast<Milliseconds>(about.timeout)));
}

HocketBackend::HocketBackend(const c10d::DistributedBackendOptions& about, c10::intrusive_ptr<HocketOptions> options)
    : Backend(about.group_rank, about.group_size),
      options_(std::move(options)),
      group_(Group::make(spec_of(about, *options_), about.store)) {
  init();
}

// Python may let go of it with its lock held, which a work that ends elsewhere may need meanwhile.
HocketBackend::~HocketBackend() {
  std::optional<pybind11::gil_scoped_release> no_gil;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) no_gil.emplace();
  group_->close();
}

void HocketBackend::setTimeout(Ms timeout) {
  options_->timeout = timeout;
  group_->set_timeout(timeout);
}

c10d::ErrorType HocketBackend::getError() {
  switch (group_->async_error()) {
    case hktSuccess:
      return c10d::ErrorType::SUCCESS;
    case hktTimeout:
      return c10d::ErrorType::TIMEOUT;
    case hktRemoteError:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

// --- messages

Work HocketBackend::send(Tensors& tensors, int peer, int tag) {
  Job j = job(OpType::SEND, "hocket:send", c10d::kUnsetTimeout, true);
  const at::Tensor& t = only(j, tensors);
  j.outputs = tensors;
  const Unit unit = moved_as(t);
  const size_t n = unit.count(t);
  const void* const buf = readable(j, t).data_ptr();
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktSend(buf, n, unit.type, peer, tag, comm, options);
  });
}

Work HocketBackend::recv(Tensors& tensors, int peer, int tag) {
  TORCH_CHECK(peer >= 0 && peer < getSize(), "hocket: invalid argument in recv: the source is rank ", peer,
              " of the group, must be in [0, ", getSize(), ")");
  return receive(tensors, peer, tag, OpType::RECV);
}

Work HocketBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, HKT_ANY_SOURCE, tag, OpType::RECVANYSOURCE);
}

Work HocketBackend::receive(Tensors& tensors, int peer, int tag, OpType type) {
  Job j = job(type, type == OpType::RECV ? "hocket:recv" : "hocket:recvAnySource", c10d::kUnsetTimeout, true);
  const at::Tensor& t = only(j, tensors);
  j.outputs = tensors;
  const Unit unit = moved_as(t);
  const size_t n = unit.count(t);
  void* const buf = writable(j, t, Filled::no).data_ptr();
  const auto message = j.message = std::make_shared<hktMessage_t>();
  // Hocket lets a message be shorter than its receive; torch's tensors have to be as long.
  j.after = [message, n, times = unit.times, size = getSize()] {
    TORCH_CHECK_WITH(DistBackendError, message->count == n, "hocket: mismatch in recv: rank ", message->source, " of ",
                     size, " has sent ", message->count / times, " elements, the tensor has ", n / times);
  };
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktRecvMessage(buf, n, unit.type, peer, tag, message.get(), comm, options);
  });
}

Work HocketBackend::barrier(const c10d::BarrierOptions& o) {
  return group_->run(
      job(OpType::BARRIER, "hocket:barrier", o.timeout, o.asyncOp), 1,
      [&](size_t, hktComm_t comm, const hktCallOptions_t* options) { return hktBarrier(comm, options); });
}

// Hocket's timeouts name all ranks that are missing, whatever `wait_all_ranks` says.
void HocketBackend::monitoredBarrier(const c10d::BarrierOptions& o, bool /*wait_all_ranks*/) {
  (void)group_->run(job(OpType::BARRIER, "hocket:monitored_barrier", o.timeout, false), 1,
                    [&](size_t, hktComm_t comm, const hktCallOptions_t* options) { return hktBarrier(comm, options); });
}

// --- sparse tensors

namespace {

// What the ranks tell each other first. Fixed size: the number of dimensions is part of it.
struct Outline {
  static constexpr size_t kMost = 13;
  int64_t nonzero = 0, sparse = 0, dense = 0;
  int64_t sizes[kMost] = {};

  bool fits(const Outline& other) const {
    return sparse == other.sparse && dense == other.dense && std::equal(sizes, sizes + kMost, other.sizes);
  }
};
static_assert(sizeof(Outline) == 16 * sizeof(int64_t));

std::string text_of(const Outline& o) {
  std::string text;
  for (int64_t i = 0; i < o.sparse + o.dense; ++i) text += (i == 0 ? "" : ", ") + std::to_string(o.sizes[i]);
  return "[" + text + "], " + std::to_string(o.sparse) + " dimensions sparse";
}

}  // namespace

// The sum of tensors with different patterns: all ranks gather all entries and add them up in the same order. Runs on
// the caller's thread, also when it is called asynchronously: its messages depend on one another.
Work HocketBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& o) {
  Job j = job(OpType::_ALLREDUCE_SPARSE, "hocket:sparse_all_reduce", o.timeout, false);
  check_length(j, "the list of tensors", tensors.size(), 1);
  const at::Tensor t = tensors[0];
  TORCH_CHECK(t.layout() == at::kSparse && t.device().is_cpu(), "hocket: invalid argument in ", j.name(),
              ": the tensor is ", t.layout(), " on ", t.device(), ", must be sparse (COO) on the CPU");
  TORCH_CHECK(o.reduceOp == c10d::ReduceOp::SUM || o.reduceOp == c10d::ReduceOp::AVG, "hocket: invalid argument in ",
              j.name(), ": only SUM and AVG are defined for sparse tensors");
  TORCH_CHECK(t.dim() <= static_cast<int64_t>(Outline::kMost), "hocket: invalid argument in ", j.name(), ": ", t.dim(),
              " dimensions, at most ", Outline::kMost, " are served");
  const at::NoGradGuard no_grad;
  const at::Tensor mine = t.detach().coalesce();
  const at::Tensor indices = mine._indices().contiguous(), values = mine._values().contiguous();
  Outline outline{mine._nnz(), mine.sparse_dim(), mine.dense_dim(), {}};
  std::copy(mine.sizes().begin(), mine.sizes().end(), outline.sizes);

  const auto n = static_cast<size_t>(getSize());
  std::vector<Outline> all(n);
  std::vector<size_t> index_counts(n), value_counts(n);
  at::Tensor all_indices, all_values;
  const Unit unit = moved_as(values);
  int64_t row = 1;  // elements of an entry
  for (int64_t d = 1; d < values.dim(); ++d) row *= values.size(d);
  j.inputs = tensors;
  j.outputs = tensors;
  j.after = [&] {
    // Entries of the ranks one after the other: an index has the ranks' blocks of [sparse dimensions, entries].
    Tensors parts;
    int64_t offset = 0;
    for (const Outline& other : all) {
      const int64_t count = other.sparse * other.nonzero;
      parts.push_back(all_indices.narrow(0, offset, count).view({other.sparse, other.nonzero}));
      offset += count;
    }
    at::Tensor sum = at::sparse_coo_tensor(at::cat(parts, 1), all_values, t.sizes()).coalesce();
    if (o.reduceOp == c10d::ReduceOp::AVG) sum.div_(static_cast<int64_t>(n));
    t.copy_(sum);
  };
  return group_->run(std::move(j), 3, [&](size_t i, hktComm_t comm, const hktCallOptions_t* options) {
    if (i == 0) return hktAllGather(&outline, all.data(), sizeof outline / sizeof(int64_t), hktInt64, comm, options);
    if (i == 1) {
      int64_t entries = 0;
      for (size_t r = 0; r < n; ++r) {
        TORCH_CHECK_WITH(DistBackendError, all[r].fits(outline), "hocket: mismatch in sparse_all_reduce: rank ", r,
                         " has a tensor of ", text_of(all[r]), ", rank ", getRank(), " one of ", text_of(outline));
        index_counts[r] = static_cast<size_t>(outline.sparse * all[r].nonzero);
        value_counts[r] = unit.count(row * all[r].nonzero);
        entries += all[r].nonzero;
      }
      std::vector<int64_t> shape = values.sizes().vec();
      shape[0] = entries;
      all_indices = at::empty({outline.sparse * entries}, indices.options());
      all_values = at::empty(shape, values.options());
      return hktAllGatherV(indices.data_ptr(), all_indices.data_ptr(), index_counts.data(), nullptr, hktInt64, comm,
                           options);
    }
    return hktAllGatherV(values.data_ptr(), all_values.data_ptr(), value_counts.data(), nullptr, unit.type, comm,
                         options);
  });
}

}  // namespace hocket::pg
