// Hocket in C++20: RAII over the C ABI of hocket.h, whose rules hold here, too. Header only; failures are thrown as
// hocket::Failure.
#ifndef HOCKET_HOCKET_HPP
#define HOCKET_HOCKET_HPP

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hocket/hocket.h"

namespace hocket {
// An inline namespace, so that these names and the library's own of the same spelling are never one to the linker.
inline namespace wrapper {

// The built-in operations; those made by Communicator::make_op and pre_mul_sum have other values.
enum class Op {
  sum = hktSum,
  prod = hktProd,
  max = hktMax,
  min = hktMin,
  avg = hktAvg,
  bit_and = hktBitAnd,
  bit_or = hktBitOr,
  bit_xor = hktBitXor,
  logical_and = hktLogicalAnd,
  logical_or = hktLogicalOr,
  logical_xor = hktLogicalXor
};

// Whether an operation of one's own is commutative.
enum class Commutes { no, yes };

// What a failed call throws: the code, and as what() one line that says what is wrong, where, and what to do.
class Failure : public std::runtime_error {
 public:
  Failure(hktResult_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  hktResult_t code() const noexcept { return code_; }

 private:
  hktResult_t code_;
};

inline void check(hktResult_t result) {
  if (result != hktSuccess) throw Failure(result, std::string(hktGetErrorString(result)) + ": " + hktGetLastError());
}

// The hktDataType_t of an arithmetic C++ type or std::complex; 8-bit and 16-bit floats have no C++20 type, use
// Communicator::handle() with the C ABI.
template <class T>
constexpr hktDataType_t type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    static_assert(sizeof(bool) == 1);
    return hktBool;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return hktComplex64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return hktComplex128;
  } else {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "no Hocket type for this C++ type");
    if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? hktFloat32 : hktFloat64;
    } else {
      constexpr bool s = std::is_signed_v<T>;
      return sizeof(T) == 1   ? (s ? hktInt8 : hktUint8)
             : sizeof(T) == 2 ? (s ? hktInt16 : hktUint16)
             : sizeof(T) == 4 ? (s ? hktInt32 : hktUint32)
                              : (s ? hktInt64 : hktUint64);
    }
  }
}

// Settings of a communicator. What is left unset comes from the environment.
struct Config {
  std::chrono::milliseconds init_timeout{-1};  // negative: HOCKET_INIT_TIMEOUT or 30 s
  std::chrono::milliseconds timeout{-1};       // of each call; negative: HOCKET_TIMEOUT or 600 s
  std::string transport;                       // "auto", "shm", "tcp"; empty: HOCKET_TRANSPORT or auto
  hktDeterminism_t determinism = HKT_DETERMINISM_DEFAULT;
};

// A call that has been started and not waited for. Movable; the buffers are Hocket's until it is done, so one that is
// destroyed before waits, and keeps what it then learns to itself.
class Request {
 public:
  Request() = default;
  explicit Request(hktRequest_t request) : request_(request) {}
  Request(Request&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(request_, other.request_);
    return *this;
  }
  ~Request() {
    if (request_ != nullptr) (void)hktRequestWait(&request_);
  }
  // It has not been found done yet.
  explicit operator bool() const noexcept { return request_ != nullptr; }
  void wait() { check(hktRequestWait(&request_)); }
  bool test() {
    int done = 0;
    check(hktRequestTest(&request_, &done));
    return done != 0;
  }

 private:
  hktRequest_t request_ = nullptr;
};

// Calls of this thread between its construction and end() are issued together; see hktGroupStart. Without an end()
// (an exception, say) they are issued, waited for, and what goes wrong is not told.
class Group {
 public:
  Group() { check(hktGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) (void)hktGroupEnd(nullptr);
  }
  void end() {
    open_ = false;
    check(hktGroupEnd(nullptr));
  }
  // Does not wait.
  Request start() {
    open_ = false;
    hktRequest_t request = nullptr;
    hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
    options.request = &request;
    check(hktGroupEnd(&options));
    return Request(request);
  }

 private:
  bool open_ = true;
};

// Owns a communicator. Movable. One thread at a time; abort() and async_error() from any.
class Communicator {
 public:
  static Communicator from_env(const Config& config = {}) {
    return make(config, [](hktComm_t* c, const hktConfig_t* k) { return hktCommInitEnv(c, k); });
  }
  static Communicator from_url(const std::string& url, const Config& config = {}) {
    return make(config, [&](hktComm_t* c, const hktConfig_t* k) { return hktCommInitUrl(c, url.c_str(), k); });
  }
  static Communicator from_id(const hktUniqueId& id, int rank, int size, const Config& config = {}) {
    return make(config, [&](hktComm_t* c, const hktConfig_t* k) { return hktCommInitRank(c, size, id, rank, k); });
  }
  static Communicator from_store(const hktStore_t& store, int rank, int size, const Config& config = {}) {
    return make(config, [&](hktComm_t* c, const hktConfig_t* k) { return hktCommInitStore(c, size, rank, &store, k); });
  }

  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Communicator() {
    if (comm_ != nullptr) (void)hktCommDestroy(comm_);
  }

  // Communicators made from this one; see hocket.h. Throws a Failure as the others do.
  // The ranks with the same color >= 0, by key and then by rank; nothing for HKT_SPLIT_NOCOLOR.
  std::optional<Communicator> split(int color, int key = 0, const Config& config = {}) {
    Communicator made =
        make(config, [&](hktComm_t* c, const hktConfig_t* k) { return hktCommSplit(comm_, color, key, c, k); });
    if (made.comm_ == nullptr) return std::nullopt;
    return made;
  }
  Communicator dup(const Config& config = {}) {
    return make(config, [&](hktComm_t* c, const hktConfig_t* k) { return hktCommDup(comm_, c, k); });
  }
  // Called by the listed ranks only, with the same list and tag; ranks[i] becomes rank i.
  Communicator create(std::span<const int> ranks, int tag = 0, const Config& config = {}) {
    return make(config, [&](hktComm_t* c, const hktConfig_t* k) {
      return hktCommCreate(comm_, ranks.data(), static_cast<int>(ranks.size()), tag, c, k);
    });
  }
  // The last call: afterwards the ranks may be destroyed in any order.
  void finalize() { check(hktCommFinalize(comm_)); }

  int rank() const {
    int rank = 0;
    check(hktCommRank(comm_, &rank));
    return rank;
  }
  int size() const {
    int size = 0;
    check(hktCommCount(comm_, &size));
    return size;
  }

  // Operations of this communicator's own; all ranks make the same ones in the same order.
  // Sum of each rank's data times its scalar.
  template <class T>
  Op pre_mul_sum(T scalar) {
    hktRedOp_t op = hktSum;
    check(hktRedOpCreatePreMulSum(&op, &scalar, type_of<T>(), comm_));
    return static_cast<Op>(op);
  }
  Op make_op(hktReduceFn fn, Commutes commutes, void* context = nullptr) {
    hktRedOp_t op = hktSum;
    check(hktRedOpCreate(&op, fn, commutes == Commutes::yes ? 1 : 0, context, comm_));
    return static_cast<Op>(op);
  }
  void destroy(Op op) { check(hktRedOpDestroy(static_cast<hktRedOp_t>(op), comm_)); }

  // In place: data[i] = op over all ranks of data[i].
  template <class T, std::size_t N>
  void all_reduce(std::span<T, N> data, Op op) {
    check(
        hktAllReduce(data.data(), data.data(), data.size(), type_of<T>(), static_cast<hktRedOp_t>(op), comm_, nullptr));
  }
  // out[i] = op over all ranks of in[i]; equal lengths.
  template <class T, std::size_t N, std::size_t M>
  void all_reduce(std::span<const T, N> in, std::span<T, M> out, Op op) {
    if (in.size() != out.size())
      throw Failure(hktInvalidArgument, "all_reduce: in has " + std::to_string(in.size()) + " elements, out " +
                                            std::to_string(out.size()) + "; they must be equal");
    check(hktAllReduce(in.data(), out.data(), in.size(), type_of<T>(), static_cast<hktRedOp_t>(op), comm_, nullptr));
  }
  // Many buffers in one call; see hktAllReduceList. In place, and with out[b] for each in[b].
  template <class T>
  void all_reduce_list(const std::vector<std::span<T>>& data, Op op) {
    check(reduce_list(data, data, op, nullptr));
  }
  template <class T>
  void all_reduce_list(const std::vector<std::span<const T>>& in, const std::vector<std::span<T>>& out, Op op) {
    check(reduce_list(in, out, op, nullptr));
  }
  // data of `root` goes to all.
  template <class T, std::size_t N>
  void broadcast(std::span<T, N> data, int root) {
    check(hktBroadcast(data.data(), data.data(), data.size(), type_of<T>(), root, comm_, nullptr));
  }
  void barrier() { check(hktBarrier(comm_, nullptr)); }

  // `out` of the root = op over all ranks of `in`. `out` is written on the root only, where it is as long as `in`;
  // elsewhere it may be anything, {} too.
  template <class T, std::size_t N>
  void reduce(std::span<const T, N> in, std::type_identity_t<std::span<T>> out, Op op, int root) {
    if (rank() == root) require("reduce", "out", out.size(), in.size());
    check(hktReduce(in.data(), out.data(), in.size(), type_of<T>(), static_cast<hktRedOp_t>(op), root, comm_, nullptr));
  }
  // In place: the root's data.
  template <class T, std::size_t N>
  void reduce(std::span<T, N> data, Op op, int root) {
    check(hktReduce(data.data(), data.data(), data.size(), type_of<T>(), static_cast<hktRedOp_t>(op), root, comm_,
                    nullptr));
  }

  // `out` has size() blocks, block r is `in` of rank r.
  template <class T, std::size_t N, std::size_t M>
  void all_gather(std::span<const T, N> in, std::span<T, M> out) {
    require("all_gather", "out", out.size(), in.size() * blocks());
    check(hktAllGather(in.data(), out.data(), in.size(), type_of<T>(), comm_, nullptr));
  }
  // In place: each rank has filled its own block.
  template <class T, std::size_t N>
  void all_gather(std::span<T, N> data) {
    const std::span<T> own = own_block("all_gather", data);
    check(hktAllGather(own.data(), data.data(), own.size(), type_of<T>(), comm_, nullptr));
  }

  // `in` has size() blocks; `out` = op over all ranks of their block for this rank.
  template <class T, std::size_t N, std::size_t M>
  void reduce_scatter(std::span<const T, N> in, std::span<T, M> out, Op op) {
    require("reduce_scatter", "in", in.size(), out.size() * blocks());
    check(
        hktReduceScatter(in.data(), out.data(), out.size(), type_of<T>(), static_cast<hktRedOp_t>(op), comm_, nullptr));
  }
  // In place: the result is this rank's block of data, which is returned.
  template <class T, std::size_t N>
  std::span<T> reduce_scatter(std::span<T, N> data, Op op) {
    const std::span<T> own = own_block("reduce_scatter", data);
    check(hktReduceScatter(data.data(), own.data(), own.size(), type_of<T>(), static_cast<hktRedOp_t>(op), comm_,
                           nullptr));
    return own;
  }

  // Both have size() blocks: block r of `out` = this rank's block of rank r's `in`.
  template <class T, std::size_t N, std::size_t M>
  void all_to_all(std::span<const T, N> in, std::span<T, M> out) {
    require("all_to_all", "out", out.size(), in.size());
    const std::size_t count = own_block("all_to_all", in).size();
    check(hktAllToAll(in.data(), out.data(), count, type_of<T>(), comm_, nullptr));
  }
  template <class T, std::size_t N>
  void all_to_all(std::span<T, N> data) {
    const std::size_t count = own_block("all_to_all", data).size();
    check(hktAllToAll(data.data(), data.data(), count, type_of<T>(), comm_, nullptr));
  }

  // `out` of the root has size() blocks, block r is `in` of rank r; elsewhere it may be anything, {} too.
  template <class T, std::size_t N>
  void gather(std::span<const T, N> in, std::type_identity_t<std::span<T>> out, int root) {
    if (rank() == root) require("gather", "out", out.size(), in.size() * blocks());
    check(hktGather(in.data(), out.data(), in.size(), type_of<T>(), root, comm_, nullptr));
  }
  // `in` of the root has size() blocks, `out` is this rank's; elsewhere `in` may be anything, {} too.
  template <class T, std::size_t N>
  void scatter(std::type_identity_t<std::span<const T>> in, std::span<T, N> out, int root) {
    if (rank() == root) require("scatter", "in", in.size(), out.size() * blocks());
    check(hktScatter(in.data(), out.data(), out.size(), type_of<T>(), root, comm_, nullptr));
  }

  // Blocks of different sizes: counts[r] elements for rank r, at displs[r] of the buffer that has all of them; without
  // displs one after the other. Both are equal on all ranks.
  template <class T, std::size_t N, std::size_t M>
  void all_gather_v(std::span<const T, N> in, std::span<T, M> out, std::span<const std::size_t> counts,
                    std::span<const std::size_t> displs = {}) {
    require_table("all_gather_v", counts, displs, out.size());
    require("all_gather_v", "in", in.size(), counts[own()]);
    check(hktAllGatherV(in.data(), out.data(), counts.data(), displs.empty() ? nullptr : displs.data(), type_of<T>(),
                        comm_, nullptr));
  }
  template <class T, std::size_t N, std::size_t M>
  void reduce_scatter_v(std::span<const T, N> in, std::span<T, M> out, Op op, std::span<const std::size_t> counts,
                        std::span<const std::size_t> displs = {}) {
    require_table("reduce_scatter_v", counts, displs, in.size());
    require("reduce_scatter_v", "out", out.size(), counts[own()]);
    check(hktReduceScatterV(in.data(), out.data(), counts.data(), displs.empty() ? nullptr : displs.data(),
                            type_of<T>(), static_cast<hktRedOp_t>(op), comm_, nullptr));
  }

  // Messages; see hktSend. The start_ ones do not wait.
  template <class T, std::size_t N>
  void send(std::span<const T, N> data, int peer, int tag = 0) {
    check(hktSend(data.data(), data.size(), type_of<T>(), peer, tag, comm_, nullptr));
  }
  template <class T, std::size_t N>
  void recv(std::span<T, N> data, int peer, int tag = 0) {
    check(hktRecv(data.data(), data.size(), type_of<T>(), peer, tag, comm_, nullptr));
  }
  template <class T, std::size_t N>
  Request start_send(std::span<const T, N> data, int peer, int tag = 0) {
    return start([&](const hktCallOptions_t* o) {
      return hktSend(data.data(), data.size(), type_of<T>(), peer, tag, comm_, o);
    });
  }
  template <class T, std::size_t N>
  Request start_recv(std::span<T, N> data, int peer, int tag = 0) {
    return start([&](const hktCallOptions_t* o) {
      return hktRecv(data.data(), data.size(), type_of<T>(), peer, tag, comm_, o);
    });
  }
  // In place.
  template <class T, std::size_t N>
  Request start_all_reduce(std::span<T, N> data, Op op) {
    return start([&](const hktCallOptions_t* o) {
      return hktAllReduce(data.data(), data.data(), data.size(), type_of<T>(), static_cast<hktRedOp_t>(op), comm_, o);
    });
  }

  template <class T>
  Request start_all_reduce_list(const std::vector<std::span<T>>& data, Op op) {
    return start([&](const hktCallOptions_t* o) { return reduce_list(data, data, op, o); });
  }

  void abort() { check(hktCommAbort(comm_)); }
  hktResult_t async_error() const {
    hktResult_t async = hktSuccess;
    check(hktCommGetAsyncError(comm_, &async));
    return async;
  }
  hktComm_t handle() const { return comm_; }

 private:
  explicit Communicator(hktComm_t comm) : comm_(comm) {}
  std::size_t own() const { return static_cast<std::size_t>(rank()); }
  std::size_t blocks() const { return static_cast<std::size_t>(size()); }
  static void require(const char* call, const char* what, std::size_t has, std::size_t needs) {
    if (has == needs) return;
    throw Failure(hktInvalidArgument, std::string(call) + ": " + what + " has " + std::to_string(has) +
                                          " elements; there must be " + std::to_string(needs));
  }
  template <class In, class T>
  hktResult_t reduce_list(const std::vector<std::span<In>>& in, const std::vector<std::span<T>>& out, Op op,
                          const hktCallOptions_t* options) {
    if (in.size() != out.size())
      throw Failure(hktInvalidArgument, "all_reduce_list: in has " + std::to_string(in.size()) + " buffers, out " +
                                            std::to_string(out.size()) + "; they must be equal");
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<std::size_t> counts;
    for (std::size_t b = 0; b < in.size(); ++b) {
      if (in[b].size() != out[b].size())
        throw Failure(hktInvalidArgument, "all_reduce_list: in[" + std::to_string(b) + "] has " +
                                              std::to_string(in[b].size()) + " elements, out[" + std::to_string(b) +
                                              "] " + std::to_string(out[b].size()) + "; they must be equal");
      from.push_back(in[b].data());
      to.push_back(out[b].data());
      counts.push_back(in[b].size());
    }
    return hktAllReduceList(from.data(), to.data(), counts.data(), counts.size(), type_of<T>(),
                            static_cast<hktRedOp_t>(op), comm_, options);
  }
  // Of a buffer of size() equal blocks.
  template <class T, std::size_t N>
  std::span<T> own_block(const char* call, std::span<T, N> data) const {
    const std::size_t n = blocks(), count = data.size() / n;
    if (data.size() % n != 0)
      throw Failure(hktInvalidArgument, std::string(call) + ": " + std::to_string(data.size()) +
                                            " elements are no equal blocks for " + std::to_string(n) + " ranks");
    return std::span<T>(data).subspan(own() * count, count);
  }
  void require_table(const char* call, std::span<const std::size_t> counts, std::span<const std::size_t> displs,
                     std::size_t has) const {
    require(call, "counts", counts.size(), blocks());
    if (!displs.empty()) require(call, "displs", displs.size(), blocks());
    std::size_t end = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      const std::size_t at = displs.empty() ? end : displs[r];
      if (counts[r] > has || at > has - counts[r])
        throw Failure(hktInvalidArgument, std::string(call) + ": the block of rank " + std::to_string(r) +
                                              " reaches past the buffer's " + std::to_string(has) + " elements");
      if (displs.empty()) end += counts[r];
    }
  }
  template <class Call>
  static Request start(Call&& call) {
    hktRequest_t request = nullptr;
    hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
    options.request = &request;
    check(call(&options));
    return Request(request);
  }
  template <class Init>
  static Communicator make(const Config& config, Init&& init) {
    hktConfig_t k = HKT_CONFIG_INITIALIZER;
    if (config.init_timeout.count() >= 0) k.init_timeout_ms = config.init_timeout.count();
    if (config.timeout.count() >= 0) k.timeout_ms = config.timeout.count();
    if (!config.transport.empty()) k.transport = config.transport.c_str();
    k.determinism = config.determinism;
    hktComm_t comm = nullptr;
    check(init(&comm, &k));
    return Communicator(comm);
  }

  hktComm_t comm_;
};

}  // namespace wrapper
}  // namespace hocket

#endif
