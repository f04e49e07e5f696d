#include "buffers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace hocket::pg {
namespace {

// Hocket's type with the same elements, if there is one.
bool known(at::ScalarType type, hktDataType_t& out) {
  switch (type) {
    case at::kChar:
      out = hktInt8;
      return true;
    case at::kByte:
      out = hktUint8;
      return true;
    case at::kShort:
      out = hktInt16;
      return true;
    case at::kUInt16:
      out = hktUint16;
      return true;
    case at::kInt:
      out = hktInt32;
      return true;
    case at::kUInt32:
      out = hktUint32;
      return true;
    case at::kLong:
      out = hktInt64;
      return true;
    case at::kUInt64:
      out = hktUint64;
      return true;
    case at::kHalf:
      out = hktFloat16;
      return true;
    case at::kBFloat16:
      out = hktBfloat16;
      return true;
    case at::kFloat:
      out = hktFloat32;
      return true;
    case at::kDouble:
      out = hktFloat64;
      return true;
    case at::kFloat8_e4m3fn:
      out = hktFloat8e4m3;
      return true;
    case at::kFloat8_e5m2:
      out = hktFloat8e5m2;
      return true;
    case at::kBool:
      out = hktBool;
      return true;
    case at::kComplexFloat:
      out = hktComplex64;
      return true;
    case at::kComplexDouble:
      out = hktComplex128;
      return true;
    default:
      return false;
  }
}

bool plain(const at::Tensor& t) { return t.is_contiguous() && !t.is_conj() && !t.is_neg(); }

// One tensor over all of them, if they lie one after the other already; undefined if not.
at::Tensor joined(const std::vector<at::Tensor>& list) {
  if (list.empty()) return {};
  int64_t elements = 0;
  for (const at::Tensor& t : list) {
    if (!plain(t) || !t.is_alias_of(list[0]) || t.storage_offset() != list[0].storage_offset() + elements) return {};
    elements += t.numel();
  }
  return list[0].detach().as_strided({elements}, {1}, list[0].storage_offset());
}

int64_t elements_of(const std::vector<at::Tensor>& list) {
  int64_t n = 0;
  for (const at::Tensor& t : list) n += t.numel();
  return n;
}

}  // namespace

Unit moved_as(const at::Tensor& t) {
  Unit unit{hktUint8, 1};
  if (!known(t.scalar_type(), unit.type)) unit.times = t.element_size();
  return unit;
}

Unit reduced_as(const Job& job, const at::Tensor& t, const c10d::ReduceOp& op) {
  Unit unit{hktUint8, 1};
  if (known(t.scalar_type(), unit.type)) return unit;
  const bool linear = op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG;
  TORCH_CHECK(t.scalar_type() == at::kComplexHalf && linear, "hocket: invalid argument in ", job.name(),
              ": tensors of ", t.scalar_type(), " cannot be reduced; convert them, for instance to float32");
  return {hktFloat16, 2};
}

void check_tensor(const Job& job, const at::Tensor& t) {
  TORCH_CHECK(
      t.device().is_cpu(), "hocket: invalid argument in ", job.name(), ": the tensor is on ", t.device(),
      "; this version moves tensors of the CPU only: use .cpu(), or give CUDA tensors to another back end, as in "
      "init_process_group('cpu:hocket,cuda:nccl')");
  TORCH_CHECK(t.layout() == at::kStrided, "hocket: invalid argument in ", job.name(), ": the tensor is ", t.layout(),
              ", must be dense (sparse COO tensors are for all_reduce)");
}

const at::Tensor& only(const Job& job, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "hocket: invalid argument in ", job.name(), ": ", tensors.size(),
              " tensors, must be one");
  check_tensor(job, tensors[0]);
  return tensors[0];
}

void check_same(const Job& job, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "hocket: invalid argument in ", job.name(), ": one tensor is of ",
              a.scalar_type(), ", another one of ", b.scalar_type(), "; all must have the same type");
}

void check_length(const Job& job, const char* what, size_t found, size_t expected) {
  TORCH_CHECK(found == expected, "hocket: invalid argument in ", job.name(), ": ", what, " has ", found,
              " elements, must be ", expected);
}

at::Tensor readable(Job& job, const at::Tensor& t) {
  if (plain(t)) {
    job.inputs.push_back(t);
    return t;
  }
  at::Tensor copy = t.detach().resolve_conj().resolve_neg().contiguous();
  job.staged.push_back(copy);
  return copy;
}

at::Tensor writable(Job& job, const at::Tensor& t, Filled filled) {
  if (plain(t)) {
    job.staged.push_back(t);
    return t;
  }
  at::Tensor copy = at::empty(t.sizes(), t.options().memory_format(at::MemoryFormat::Contiguous));
  if (filled == Filled::yes) copy.copy_(t.detach());
  job.copies.emplace_back(t.detach(), copy);
  return copy;
}

at::Tensor readable_list(Job& job, const std::vector<at::Tensor>& list) {
  job.inputs.insert(job.inputs.end(), list.begin(), list.end());
  at::Tensor flat = joined(list);
  if (!flat.defined()) {
    flat = at::empty({elements_of(list)}, list[0].options());
    int64_t offset = 0;
    for (const at::Tensor& t : list) {
      if (t.numel() != 0) flat.narrow(0, offset, t.numel()).view(t.sizes()).copy_(t.detach());
      offset += t.numel();
    }
  }
  job.staged.push_back(flat);
  return flat;
}

at::Tensor writable_list(Job& job, const std::vector<at::Tensor>& list) {
  at::Tensor flat = joined(list);
  if (!flat.defined()) {
    flat = at::empty({elements_of(list)}, list[0].options());
    int64_t offset = 0;
    for (const at::Tensor& t : list) {
      if (t.numel() != 0) job.copies.emplace_back(t.detach(), flat.narrow(0, offset, t.numel()).view(t.sizes()));
      offset += t.numel();
    }
  }
  job.staged.push_back(flat);
  return flat;
}

std::vector<size_t> counts_of(const std::vector<at::Tensor>& list, const Unit& unit) {
  std::vector<size_t> counts;
  counts.reserve(list.size());
  for (const at::Tensor& t : list) counts.push_back(unit.count(t));
  return counts;
}

bool even(const std::vector<size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

Reduction::Reduction(const c10d::ReduceOp& op, const at::Tensor& like, const Unit& unit) : type_(unit.type) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      op_ = hktSum;
      return;
    case c10d::ReduceOp::AVG:
      op_ = hktAvg;
      return;
    case c10d::ReduceOp::PRODUCT:
      op_ = hktProd;
      return;
    case c10d::ReduceOp::MIN:
      op_ = hktMin;
      return;
    case c10d::ReduceOp::MAX:
      op_ = hktMax;
      return;
    case c10d::ReduceOp::BAND:
      op_ = hktBitAnd;
      return;
    case c10d::ReduceOp::BOR:
      op_ = hktBitOr;
      return;
    case c10d::ReduceOp::BXOR:
      op_ = hktBitXor;
      return;
    case c10d::ReduceOp::PREMUL_SUM: {
      const auto* const about = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK(about != nullptr, "hocket: invalid argument: a PREMUL_SUM without a factor");
      factor_ = about->tensor_factor.defined() ? about->tensor_factor.detach().to(like.scalar_type()).contiguous()
                                               : at::scalar_tensor(about->double_factor, like.options());
      return;
    }
    default:
      TORCH_CHECK(false, "hocket: invalid argument: reduction ", static_cast<int>(op.op_), " is none");
  }
}

Reduction::~Reduction() {
  if (comm_ != nullptr) (void)hktRedOpDestroy(op_, comm_);
}

hktResult_t Reduction::make(hktComm_t comm) {
  if (!factor_.defined() || comm_ != nullptr) return hktSuccess;
  const hktResult_t r = hktRedOpCreatePreMulSum(&op_, factor_.data_ptr(), type_, comm);
  if (r == hktSuccess) comm_ = comm;
  return r;
}

}  // namespace hocket::pg
