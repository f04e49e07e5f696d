#include "backend.h"
#include "buffers.h"

namespace hocket::pg {

using c10d::OpType;
using Work = HocketBackend::Work;

namespace {

size_t elements(const at::Tensor& t) { return static_cast<size_t>(t.numel()); }

// All tensors have one type; returns the first.
const at::Tensor& checked(const Job& job, const std::vector<at::Tensor>& list) {
  TORCH_CHECK(!list.empty(), "hocket: invalid argument in ", job.name(), ": an empty list of tensors");
  for (const at::Tensor& t : list) {
    check_tensor(job, t);
    check_same(job, list[0], t);
  }
  return list[0];
}

// The list of the one tensor that a call has on each rank.
const std::vector<at::Tensor>& only_list(const Job& job, const std::vector<std::vector<at::Tensor>>& lists) {
  check_length(job, "the list of lists", lists.size(), 1);
  return lists[0];
}

}  // namespace

Job HocketBackend::job(OpType type, const char* title, Ms timeout, bool async) const {
  Job j;
  j.type = type;
  j.title = title;
  j.timeout = timeout;
  j.async = async;
  return j;
}

void HocketBackend::check_root(const char* name, int64_t root) const {
  TORCH_CHECK(root >= 0 && root < getSize(), "hocket: invalid argument in ", name, ": the root is rank ", root,
              " of the group, must be in [0, ", getSize(), ")");
}

Work HocketBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) {
  Job j = job(OpType::BROADCAST, "hocket:broadcast", o.timeout, o.asyncOp);
  check_root(j.name(), o.rootRank);
  const at::Tensor& t = only(j, tensors);
  j.outputs = tensors;
  const int root = static_cast<int>(o.rootRank);
  const Unit unit = moved_as(t);
  const size_t n = unit.count(t);
  void* const buf = (root == getRank() ? readable(j, t) : writable(j, t, Filled::no)).data_ptr();
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktBroadcast(buf, buf, n, unit.type, root, comm, options);
  });
}

Work HocketBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) {
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return allreduce_sparse(tensors, o);
  Job j = job(OpType::ALLREDUCE, "hocket:all_reduce", o.timeout, o.asyncOp);
  const at::Tensor& t = only(j, tensors);
  j.outputs = tensors;
  const Unit unit = reduced_as(j, t, o.reduceOp);
  const size_t n = unit.count(t);
  void* const buf = writable(j, t, Filled::yes).data_ptr();
  j.inputs = tensors;
  const auto reduction = std::make_shared<Reduction>(o.reduceOp, t, unit);
  j.kept = reduction;
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    const hktResult_t r = reduction->make(comm);
    return r != hktSuccess ? r : hktAllReduce(buf, buf, n, unit.type, reduction->get(), comm, options);
  });
}

Work HocketBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) {
  Job j = job(OpType::ALLREDUCE_COALESCED, "hocket:all_reduce", o.timeout, o.asyncOp);
  const at::Tensor& first = checked(j, tensors);
  j.outputs = tensors;
  const Unit unit = reduced_as(j, first, o.reduceOp);
  const std::vector<size_t> counts = counts_of(tensors, unit);
  std::vector<void*> bufs;
  for (const at::Tensor& t : tensors) bufs.push_back(writable(j, t, Filled::yes).data_ptr());
  j.inputs = tensors;
  const auto reduction = std::make_shared<Reduction>(o.reduceOp, first, unit);
  j.kept = reduction;
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    const hktResult_t r = reduction->make(comm);
    if (r != hktSuccess) return r;
    return hktAllReduceList(bufs.data(), bufs.data(), counts.data(), bufs.size(), unit.type, reduction->get(), comm,
                            options);
  });
}

Work HocketBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& o) {
  Job j = job(OpType::REDUCE, "hocket:reduce", o.timeout, o.asyncOp);
  check_root(j.name(), o.rootRank);
  const at::Tensor& t = only(j, tensors);
  j.outputs = tensors;
  const int root = static_cast<int>(o.rootRank);
  const Unit unit = reduced_as(j, t, o.reduceOp);
  const size_t n = unit.count(t);
  void* const buf = (root == getRank() ? writable(j, t, Filled::yes) : readable(j, t)).data_ptr();
  j.inputs = tensors;
  const auto reduction = std::make_shared<Reduction>(o.reduceOp, t, unit);
  j.kept = reduction;
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    const hktResult_t r = reduction->make(comm);
    return r != hktSuccess ? r : hktReduce(buf, buf, n, unit.type, reduction->get(), root, comm, options);
  });
}

Work HocketBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& o) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, o);
}

Work HocketBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& o) {
  Job j = job(OpType::_ALLGATHER_BASE, "hocket:all_gather", o.timeout, o.asyncOp);
  check_length(j, "the list of inputs", inputs.size(), outputs.size());
  j.outputs = outputs;
  struct Piece {
    const void* from;
    void* to;
    size_t count;
    hktDataType_t type;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_tensor(j, inputs[i]);
    check_tensor(j, outputs[i]);
    check_same(j, outputs[i], inputs[i]);
    check_length(j, "the output", elements(outputs[i]), elements(inputs[i]) * static_cast<size_t>(getSize()));
    const Unit unit = moved_as(inputs[i]);
    pieces.push_back({readable(j, inputs[i]).data_ptr(), writable(j, outputs[i], Filled::no).data_ptr(),
                      unit.count(inputs[i]), unit.type});
  }
  return group_->run(std::move(j), pieces.size(), [&](size_t i, hktComm_t comm, const hktCallOptions_t* options) {
    const Piece& p = pieces[i];
    return hktAllGather(p.from, p.to, p.count, p.type, comm, options);
  });
}

Work HocketBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& o) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, o);
}

Work HocketBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::ReduceScatterOptions& o) {
  Job j = job(OpType::_REDUCE_SCATTER_BASE, "hocket:reduce_scatter", o.timeout, o.asyncOp);
  check_length(j, "the list of inputs", inputs.size(), outputs.size());
  j.outputs = outputs;
  struct Piece {
    const void* from;
    void* to;
    size_t count;
    hktDataType_t type;
    std::shared_ptr<Reduction> reduction;
  };
  const auto pieces = std::make_shared<std::vector<Piece>>();
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_tensor(j, inputs[i]);
    check_tensor(j, outputs[i]);
    check_same(j, outputs[i], inputs[i]);
    check_length(j, "the input", elements(inputs[i]), elements(outputs[i]) * static_cast<size_t>(getSize()));
    const Unit unit = reduced_as(j, inputs[i], o.reduceOp);
    pieces->push_back({readable(j, inputs[i]).data_ptr(), writable(j, outputs[i], Filled::no).data_ptr(),
                       unit.count(outputs[i]), unit.type, std::make_shared<Reduction>(o.reduceOp, inputs[i], unit)});
  }
  j.kept = pieces;
  return group_->run(std::move(j), pieces->size(), [&](size_t i, hktComm_t comm, const hktCallOptions_t* options) {
    const Piece& p = (*pieces)[i];
    const hktResult_t r = p.reduction->make(comm);
    if (r != hktSuccess) return r;
    return hktReduceScatter(p.from, p.to, p.count, p.type, p.reduction->get(), comm, options);
  });
}

// --- lists of tensors

Work HocketBackend::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  Job j = job(OpType::ALLGATHER, "hocket:all_gather", o.timeout, o.asyncOp);
  check_length(j, "the list of inputs", inputs.size(), 1);
  check_length(j, "the list of outputs", only_list(j, outputs).size(), static_cast<size_t>(getSize()));
  Lists by_rank;
  for (const at::Tensor& t : outputs[0]) by_rank.push_back({t});
  return allgather_coalesced(by_rank, inputs, o);
}

// Outputs are by rank, then by input.
Work HocketBackend::allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  Job j = job(OpType::ALLGATHER, "hocket:all_gather", o.timeout, o.asyncOp);
  check_length(j, "the list of output lists", outputs.size(), static_cast<size_t>(getSize()));
  for (const Tensors& list : outputs) check_length(j, "the outputs of a rank", list.size(), inputs.size());
  struct Piece {
    const void* from;
    void* to;
    std::vector<size_t> counts;
    hktDataType_t type;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(j, inputs[i]);
    Tensors from_all;
    for (const Tensors& list : outputs) from_all.push_back(list[i]);
    check_same(j, checked(j, from_all), inputs[i]);
    check_length(j, "the output of this rank", elements(from_all[static_cast<size_t>(getRank())]), elements(inputs[i]));
    const Unit unit = moved_as(inputs[i]);
    const void* const from = readable(j, inputs[i]).data_ptr();
    pieces.push_back({from, writable_list(j, from_all).data_ptr(), counts_of(from_all, unit), unit.type});
    j.outputs.insert(j.outputs.end(), from_all.begin(), from_all.end());
  }
  return group_->run(std::move(j), pieces.size(), [&](size_t i, hktComm_t comm, const hktCallOptions_t* options) {
    const Piece& p = pieces[i];
    return even(p.counts) ? hktAllGather(p.from, p.to, p.counts[0], p.type, comm, options)
                          : hktAllGatherV(p.from, p.to, p.counts.data(), nullptr, p.type, comm, options);
  });
}

Work HocketBackend::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& o) {
  Job j = job(OpType::GATHER, "hocket:gather", o.timeout, o.asyncOp);
  check_root(j.name(), o.rootRank);
  const at::Tensor& input = only(j, inputs);
  const int root = static_cast<int>(o.rootRank);
  const Unit unit = moved_as(input);
  const size_t count = unit.count(input);
  const void* const from = readable(j, input).data_ptr();
  void* to = nullptr;
  if (root == getRank()) {
    const Tensors& list = only_list(j, outputs);
    check_length(j, "the list of outputs", list.size(), static_cast<size_t>(getSize()));
    check_same(j, checked(j, list), input);
    for (const at::Tensor& t : list) check_length(j, "an output", elements(t), elements(input));
    to = writable_list(j, list).data_ptr();
    j.outputs = list;
  } else {
    check_length(j, "the list of outputs of a rank that is not the root", outputs.size(), 0);
  }
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktGather(from, to, count, unit.type, root, comm, options);
  });
}

Work HocketBackend::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& o) {
  Job j = job(OpType::SCATTER, "hocket:scatter", o.timeout, o.asyncOp);
  check_root(j.name(), o.rootRank);
  const at::Tensor& output = only(j, outputs);
  j.outputs = outputs;
  const int root = static_cast<int>(o.rootRank);
  const Unit unit = moved_as(output);
  const size_t count = unit.count(output);
  void* const to = writable(j, output, Filled::no).data_ptr();
  const void* from = nullptr;
  if (root == getRank()) {
    const Tensors& list = only_list(j, inputs);
    check_length(j, "the list of inputs", list.size(), static_cast<size_t>(getSize()));
    check_same(j, checked(j, list), output);
    for (const at::Tensor& t : list) check_length(j, "an input", elements(t), elements(output));
    from = readable_list(j, list).data_ptr();
  } else {
    check_length(j, "the list of inputs of a rank that is not the root", inputs.size(), 0);
  }
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktScatter(from, to, count, unit.type, root, comm, options);
  });
}

Work HocketBackend::reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& o) {
  Job j = job(OpType::REDUCE_SCATTER, "hocket:reduce_scatter", o.timeout, o.asyncOp);
  const at::Tensor& output = only(j, outputs);
  j.outputs = outputs;
  const Tensors& list = only_list(j, inputs);
  check_length(j, "the list of inputs", list.size(), static_cast<size_t>(getSize()));
  check_same(j, checked(j, list), output);
  check_length(j, "the input of this rank", elements(list[static_cast<size_t>(getRank())]), elements(output));
  const Unit unit = reduced_as(j, output, o.reduceOp);
  const std::vector<size_t> counts = counts_of(list, unit);
  const void* const from = readable_list(j, list).data_ptr();
  void* const to = writable(j, output, Filled::no).data_ptr();
  const auto reduction = std::make_shared<Reduction>(o.reduceOp, output, unit);
  j.kept = reduction;
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    const hktResult_t r = reduction->make(comm);
    if (r != hktSuccess) return r;
    return even(counts)
               ? hktReduceScatter(from, to, counts[0], unit.type, reduction->get(), comm, options)
               : hktReduceScatterV(from, to, counts.data(), nullptr, unit.type, reduction->get(), comm, options);
  });
}

Work HocketBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                  std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& o) {
  Job j = job(OpType::ALLTOALL_BASE, "hocket:all_to_all", o.timeout, o.asyncOp);
  check_tensor(j, output);
  check_tensor(j, input);
  check_same(j, output, input);
  j.outputs = {output};
  const auto n = static_cast<size_t>(getSize());
  const Unit unit = moved_as(input);
  const void* const from = readable(j, input).data_ptr();
  void* const to = writable(j, output, Filled::no).data_ptr();
  if (output_splits.empty() && input_splits.empty()) {
    check_length(j, "the output", elements(output), elements(input));
    TORCH_CHECK(elements(input) % n == 0, "hocket: invalid argument in ", j.name(), ": ", elements(input),
                " elements cannot be split evenly between ", n, " ranks");
    const size_t count = unit.count(input) / n;
    return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
      return hktAllToAll(from, to, count, unit.type, comm, options);
    });
  }
  // Splits are of the first dimension.
  const auto blocks = [&](const at::Tensor& t, const std::vector<int64_t>& splits, const char* what) {
    const int64_t rows = t.dim() == 0 ? 1 : t.size(0);
    std::vector<size_t> counts(n);
    if (splits.empty()) {
      TORCH_CHECK(rows % getSize() == 0, "hocket: invalid argument in ", j.name(), ": the ", rows, " rows of the ",
                  what, " cannot be split evenly between ", n, " ranks");
      std::fill(counts.begin(), counts.end(), unit.count(t) / n);
      return counts;
    }
    check_length(j, what, splits.size(), n);
    int64_t sum = 0;
    const size_t row = rows == 0 ? 0 : unit.count(t) / static_cast<size_t>(rows);
    for (size_t i = 0; i < n; ++i) {
      TORCH_CHECK(splits[i] >= 0, "hocket: invalid argument in ", j.name(), ": split ", i, " of the ", what, " is ",
                  splits[i]);
      sum += splits[i];
      counts[i] = static_cast<size_t>(splits[i]) * row;
    }
    TORCH_CHECK(sum == rows, "hocket: invalid argument in ", j.name(), ": the splits of the ", what, " add up to ", sum,
                ", not to its ", rows, " rows");
    return counts;
  };
  const std::vector<size_t> sends = blocks(input, input_splits, "input"),
                            receives = blocks(output, output_splits, "output");
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktAllToAllV(from, sends.data(), nullptr, to, receives.data(), nullptr, unit.type, comm, options);
  });
}

Work HocketBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) {
  Job j = job(OpType::ALLTOALL, "hocket:all_to_all", o.timeout, o.asyncOp);
  check_length(j, "the list of inputs", inputs.size(), static_cast<size_t>(getSize()));
  check_length(j, "the list of outputs", outputs.size(), static_cast<size_t>(getSize()));
  check_same(j, checked(j, inputs), checked(j, outputs));
  j.outputs = outputs;
  const Unit unit = moved_as(inputs[0]);
  const std::vector<size_t> sends = counts_of(inputs, unit), receives = counts_of(outputs, unit);
  const void* const from = readable_list(j, inputs).data_ptr();
  void* const to = writable_list(j, outputs).data_ptr();
  return group_->run(std::move(j), 1, [&](size_t, hktComm_t comm, const hktCallOptions_t* options) {
    return hktAllToAllV(from, sends.data(), nullptr, to, receives.data(), nullptr, unit.type, comm, options);
  });
}

}  // namespace hocket::pg
