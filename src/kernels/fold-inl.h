// The loops of the kernels for one SIMD target: every input is read once, every output written once, whatever the
// number of operands. Included once per target by the sources that say which kernels there are.
#if defined(HOCKET_KERNELS_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_FOLD_INL_H_
#undef HOCKET_KERNELS_FOLD_INL_H_
#else
#define HOCKET_KERNELS_FOLD_INL_H_
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/elements-inl.h"
#include "kernels/operations-inl.h"
#include "kernels/reduce_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

constexpr uint64_t kLine = 64;     // bytes of a cache line
constexpr size_t kVectors = 4;     // of a loop, at most
constexpr size_t kStreamed = 128;  // bytes that a loop streams at a time, at most
constexpr size_t kAhead = 1024;    // bytes
constexpr size_t kMinStream = 16;  // Highway streams no less than this many bytes

struct Operands {
  void* dst;
  const void* const* src;
  uint32_t nsrc;
  uint32_t divisor;
};

// Bytes from `p` to the next cache line.
HWY_INLINE uint64_t bytes_to_line(const void* p) { return (kLine - reinterpret_cast<uintptr_t>(p) % kLine) % kLine; }

template <class E, Stores kStores, class D>
HWY_INLINE void store(D d, hn::Vec<D> v, typename E::Stored* p) {
  const hn::Rebind<typename E::Stored, D> to;
  if constexpr (kStores == Stores::streaming && hn::MaxLanes(to) * sizeof(typename E::Stored) >= kMinStream) {
    hn::Stream(E::pack(d, v), to, p);
  } else {
    hn::StoreU(E::pack(d, v), to, p);
  }
}

// With normal stores, always.
template <class E, Stores kStores, class D>
HWY_INLINE void store(D d, ComplexVec<D> v, typename E::Stored* p) {
  E::store(d, v, p);
}

template <class E>
constexpr size_t kFullLanes = hn::MaxLanes(hn::ScalableTag<typename E::Work>());

// ---- A loop: `at` is called for vectors of the elements [i, end), each once, from the first to the last.

// Fewer than 2 * kLanes elements: vectors of kLanes, half as many, and so on to a single one.
template <class E, size_t kLanes, class At>
HWY_INLINE void each_vector_of_rest(const At& at, uint64_t i, uint64_t end) {
  if (end - i >= kLanes) {
    at(hn::CappedTag<typename E::Work, kLanes>(), i);
    i += kLanes;
  }
  if constexpr (kLanes > 1) each_vector_of_rest<E, kLanes / 2>(at, i, end);
}

template <class E, class At>
HWY_INLINE void each_vector(const At& at, uint64_t i, uint64_t end) {
  constexpr size_t n = kFullLanes<E>;
  for (; end - i >= n; i += n) at(hn::ScalableTag<typename E::Work>(), i);
  if constexpr (n > 1) each_vector_of_rest<E, n / 2>(at, i, end);
}

// ---- Folds

// Folds one vector of elements from `i` on, with normal stores. kSources: the number of operands, 0 if it is only known
// at run time.
template <class E, class Op, uint32_t kSources>
struct FoldAt {
  const Operands& o;

  template <class D>
  HWY_INLINE void operator()(D d, uint64_t i) const {
    using T = typename E::Stored;
    auto acc = E::load(d, static_cast<const T*>(o.src[0]) + i);
    for (uint32_t k = 1; k < (kSources != 0 ? kSources : o.nsrc); ++k) {
      acc = Op::combine(d, acc, E::load(d, static_cast<const T*>(o.src[k]) + i));
    }
    store<E, Stores::temporal>(d, Op::finish(d, acc, o.divisor), static_cast<T*>(o.dst) + i);
  }
};

// Few elements, or the ends of a large fold.
template <class E, class Op>
HWY_NOINLINE void fold_ends(const Operands& o, uint64_t begin, uint64_t end) {
  each_vector<E>(FoldAt<E, Op, 0>{o}, begin, end);
}

// Vectors that a loop folds at a time: enough independent chains to hide the latency of one, and with streaming stores
// two lines.
template <class E, Stores kStores>
constexpr size_t at_a_time() {
  constexpr size_t bytes = kFullLanes<E> * sizeof(typename E::Stored);
  if (kStores == Stores::temporal || bytes * kVectors <= kStreamed) return kVectors;
  return bytes * 2 <= kStreamed ? 2 : 1;
}

// Asks for what a streaming loop reads a few turns later: the processor's own looking ahead stops short beside stores
// that go past the caches. What lies there need not be anybody's memory.
template <Stores kStores, size_t kBytes>
HWY_INLINE void look_ahead(const void* p) {
  if constexpr (kStores == Stores::streaming)
    for (size_t at = 0; at < kBytes; at += kLine)
      hwy::Prefetch(reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(p) + kAhead + at));
}

// Folds at least kVectors full vectors.
template <class E, class Op, Stores kStores>
HWY_NOINLINE void fold_blocks(const Operands& o, uint64_t elems) {
  using T = typename E::Stored;
  constexpr size_t n = kFullLanes<E>;
  constexpr size_t at_once = at_a_time<E, kStores>();
  const hn::ScalableTag<typename E::Work> d;

  // Streaming stores need an aligned destination; to others it saves stores that cross a cache line.
  const uint64_t to_line = bytes_to_line(o.dst);
  uint64_t i = 0;
  if (to_line % sizeof(T) == 0) {
    i = to_line / sizeof(T) < elems ? to_line / sizeof(T) : elems;
    if (i != 0) fold_ends<E, Op>(o, 0, i);
  } else if constexpr (kStores == Stores::streaming) {
    return fold_blocks<E, Op, Stores::temporal>(o, elems);
  }

  for (; elems - i >= at_once * n; i += at_once * n) {
    const T* p = static_cast<const T*>(o.src[0]) + i;
    look_ahead<kStores, at_once * n * sizeof(T)>(p);
    auto acc0 = E::load(d, p);
    auto acc1 = acc0, acc2 = acc0, acc3 = acc0;
    if constexpr (at_once > 1) acc1 = E::load(d, p + n);
    if constexpr (at_once > 2) {
      acc2 = E::load(d, p + 2 * n);
      acc3 = E::load(d, p + 3 * n);
    }
    for (uint32_t k = 1; k < o.nsrc; ++k) {
      p = static_cast<const T*>(o.src[k]) + i;
      look_ahead<kStores, at_once * n * sizeof(T)>(p);
      acc0 = Op::combine(d, acc0, E::load(d, p));
      if constexpr (at_once > 1) acc1 = Op::combine(d, acc1, E::load(d, p + n));
      if constexpr (at_once > 2) {
        acc2 = Op::combine(d, acc2, E::load(d, p + 2 * n));
        acc3 = Op::combine(d, acc3, E::load(d, p + 3 * n));
      }
    }
    T* q = static_cast<T*>(o.dst) + i;
    store<E, kStores>(d, Op::finish(d, acc0, o.divisor), q);
    if constexpr (at_once > 1) store<E, kStores>(d, Op::finish(d, acc1, o.divisor), q + n);
    if constexpr (at_once > 2) {
      store<E, kStores>(d, Op::finish(d, acc2, o.divisor), q + 2 * n);
      store<E, kStores>(d, Op::finish(d, acc3, o.divisor), q + 3 * n);
    }
  }
  if (i != elems) fold_ends<E, Op>(o, i, elems);
  // Streaming stores may become visible after later normal stores, such as the flag that announces these bytes: wait
  // for them.
  if constexpr (kStores == Stores::streaming) hwy::FlushStream();
}

// The kernel proper: a FoldFn.
template <class E, class Op, Stores kStores>
HWY_NOINLINE void fold(void* dst, const void* const* src, uint32_t nsrc, uint64_t elems, uint32_t divisor) {
  const Operands o{dst, src, nsrc, divisor};
  if (elems >= kVectors * kFullLanes<E>) {
    if (nsrc > 1 || divisor > 1) return fold_blocks<E, Op, kStores>(o, elems);
    if (dst != src[0]) copy(dst, src[0], elems * sizeof(typename E::Stored), kStores);
  } else if constexpr (kStores == Stores::streaming) {
    fold<E, Op, Stores::temporal>(dst, src, nsrc, elems, divisor);
  } else if (divisor > 1 || nsrc > 2) {
    fold_ends<E, Op>(o, 0, elems);
  } else if (nsrc == 2) {
    // The shortest path, without a call: latency matters most for few elements of two ranks.
    const Operands two{dst, src, 2, 1};
    each_vector<E>(FoldAt<E, Op, 2>{two}, 0, elems);
  } else if (dst != src[0]) {
    copy(dst, src[0], elems * sizeof(typename E::Stored), kStores);
  }
}

// Elements that are kParts of E each.
template <class E, class Op, Stores kStores, uint32_t kParts>
void fold_parts(void* dst, const void* const* src, uint32_t nsrc, uint64_t elems, uint32_t divisor) {
  fold<E, Op, kStores>(dst, src, nsrc, elems * kParts, divisor);
}

template <class E, class Op, Stores kStores, uint32_t kParts>
FoldFn fold_fn() {
  if constexpr (kParts == 1) {
    return &fold<E, Op, kStores>;
  } else {
    return &fold_parts<E, Op, kStores, kParts>;
  }
}

template <class E, class Op, uint32_t kParts = 1>
Kernel kernel() {
  return {fold_fn<E, Op, Stores::temporal, kParts>(), fold_fn<E, Op, Stores::streaming, kParts>()};
}

// For folds that arithmetic bounds, or that are rare: not worth the size of another loop, one that streams.
template <class E, class Op>
Kernel temporal_kernel() {
  return {&fold<E, Op, Stores::temporal>, &fold<E, Op, Stores::temporal>};
}

// What real floats of any size serve. Those of 8 bits are bounded by arithmetic.
template <class E, class Op>
Kernel float_kernel() {
  if constexpr (sizeof(typename E::Stored) == 1) {
    return temporal_kernel<E, Op>();
  } else {
    return kernel<E, Op>();
  }
}
template <class E>
Kernel float_kernel(hktRedOp_t op) {
  switch (op) {
    case hktSum:
    case hktAvg:
      return float_kernel<E, Sum<typename E::Work>>();
    case hktProd:
      return float_kernel<E, Prod>();
    case hktMin:
      return float_kernel<E, Min>();
    case hktMax:
      return float_kernel<E, Max>();
    default:
      return {};
  }
}

// ---- Multiplication by one element

template <class E, class Op>
struct ScaleAt {
  using T = typename E::Stored;
  T* dst;
  const T* src;
  const T* scalars;  // a full vector of copies

  template <class D>
  HWY_INLINE void operator()(D d, uint64_t i) const {
    const auto product = Op::combine(d, E::load(d, scalars), E::load(d, src + i));
    store<E, Stores::temporal>(d, Op::finish(d, product, 1), dst + i);
  }
};

// The kernel proper: a ScaleFn.
template <class E, class Op>
void scale(void* dst, const void* src, uint64_t elems, const void* scalar) {
  using T = typename E::Stored;
  T scalars[kFullLanes<E>];
  for (T& copied : scalars) std::memcpy(&copied, scalar, sizeof(T));
  each_vector<E>(ScaleAt<E, Op>{static_cast<T*>(dst), static_cast<const T*>(src), scalars}, 0, elems);
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_KERNELS_FOLD_INL_H_
