// Between tensors and buffers: what may be given to Hocket as it is, and what is copied before and after.
#pragma once

#include <hocket/hocket.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "group.h"

namespace hocket::pg {

// An element of a tensor is `times` elements of `type` to Hocket.
struct Unit {
  hktDataType_t type;
  size_t times;
  size_t count(const at::Tensor& t) const { return static_cast<size_t>(t.numel()) * times; }
  size_t count(int64_t elements) const { return static_cast<size_t>(elements) * times; }
};
// For data that is only moved: every type there is, unknown ones as bytes.
Unit moved_as(const at::Tensor& t);
// For data that is reduced: throws if Hocket has no such type.
Unit reduced_as(const Job& job, const at::Tensor& t, const c10d::ReduceOp& op);

// Throws unless it lies in memory of the CPU, dense.
void check_tensor(const Job& job, const at::Tensor& t);
const at::Tensor& only(const Job& job, const std::vector<at::Tensor>& tensors);
void check_same(const Job& job, const at::Tensor& a, const at::Tensor& b);
// Throws unless they are as many.
void check_length(const Job& job, const char* what, size_t found, size_t expected);

// Contiguous, of the same elements; the job keeps what it needs.
at::Tensor readable(Job& job, const at::Tensor& t);
// Contiguous, to be written to, and copied to `t` when the job is done if it is not `t` itself. `filled`: has its
// elements already.
enum class Filled { no, yes };
at::Tensor writable(Job& job, const at::Tensor& t, Filled filled);

// The same for tensors of any shapes one after the other.
at::Tensor readable_list(Job& job, const std::vector<at::Tensor>& list);
at::Tensor writable_list(Job& job, const std::vector<at::Tensor>& list);
// Elements of each; `even`: all the same.
std::vector<size_t> counts_of(const std::vector<at::Tensor>& list, const Unit& unit);
bool even(const std::vector<size_t>& counts);

// torch's operation as Hocket's. One that is made for the purpose (PREMUL_SUM) ends with this.
class Reduction {
 public:
  Reduction(const c10d::ReduceOp& op, const at::Tensor& like, const Unit& unit);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  // Under the group's lock.
  hktResult_t make(hktComm_t comm);
  hktRedOp_t get() const { return op_; }

 private:
  hktRedOp_t op_ = hktSum;
  hktDataType_t type_;
  at::Tensor factor_;
  hktComm_t comm_ = nullptr;
};

}  // namespace hocket::pg
