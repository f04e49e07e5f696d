// The loops of the kernels for one SIMD target: every input is read once, every output written once, whatever the
// number of operands. Included once per target by the sources that say which kernels there are.
#if defined(HOCKET_KERNELS_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_FOLD_INL_H_
#undef HOCKET_KERNELS_FOLD_INL_H_
#else
#define HOCKET_KERNELS_FOLD_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/elements-inl.h"
#include "kernels/reduce_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

constexpr uint64_t kLine = 64;     // bytes of a cache line
constexpr size_t kVectors = 4;     // vectors folded at a time: enough independent chains to hide the latency of one
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

template <class E>
constexpr size_t kFullLanes = hn::MaxLanes(hn::ScalableTag<typename E::Work>());

// Folds one vector of elements from `i` on, with normal stores. kSources: the number of operands, 0 if it is only known
// at run time.
template <class E, class Op, uint32_t kSources, class D>
HWY_INLINE void fold_vector(D d, const Operands& o, uint64_t i) {
  using T = typename E::Stored;
  auto acc = E::load(d, static_cast<const T*>(o.src[0]) + i);
  for (uint32_t k = 1; k < (kSources != 0 ? kSources : o.nsrc); ++k) {
    acc = Op::combine(d, acc, E::load(d, static_cast<const T*>(o.src[k]) + i));
  }
  store<E, Stores::temporal>(d, Op::finish(d, acc, o.divisor), static_cast<T*>(o.dst) + i);
}

// Folds the last elements [i, end), fewer than 2 * kLanes, with vectors of kLanes, half as many, and so on to a single
// one.
template <class E, class Op, uint32_t kSources, size_t kLanes>
HWY_INLINE void fold_rest(const Operands& o, uint64_t i, uint64_t end) {
  if (end - i >= kLanes) {
    fold_vector<E, Op, kSources>(hn::CappedTag<typename E::Work, kLanes>(), o, i);
    i += kLanes;
  }
  if constexpr (kLanes > 1) fold_rest<E, Op, kSources, kLanes / 2>(o, i, end);
}

// Folds the elements [i, end).
template <class E, class Op, uint32_t kSources>
HWY_INLINE void fold_range(const Operands& o, uint64_t i, uint64_t end) {
  constexpr size_t n = kFullLanes<E>;
  for (; end - i >= n; i += n) fold_vector<E, Op, kSources>(hn::ScalableTag<typename E::Work>(), o, i);
  if constexpr (n > 1) fold_rest<E, Op, kSources, n / 2>(o, i, end);
}

// Few elements, or the ends of a large fold.
template <class E, class Op>
HWY_NOINLINE void fold_ends(const Operands& o, uint64_t begin, uint64_t end) {
  fold_range<E, Op, 0>(o, begin, end);
}

// Folds at least kVectors full vectors.
template <class E, class Op, Stores kStores>
HWY_NOINLINE void fold_blocks(const Operands& o, uint64_t elems) {
  using T = typename E::Stored;
  constexpr size_t n = kFullLanes<E>;
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

  for (; elems - i >= kVectors * n; i += kVectors * n) {
    const T* p = static_cast<const T*>(o.src[0]) + i;
    auto acc0 = E::load(d, p);
    auto acc1 = E::load(d, p + n);
    auto acc2 = E::load(d, p + 2 * n);
    auto acc3 = E::load(d, p + 3 * n);
    for (uint32_t k = 1; k < o.nsrc; ++k) {
      p = static_cast<const T*>(o.src[k]) + i;
      acc0 = Op::combine(d, acc0, E::load(d, p));
      acc1 = Op::combine(d, acc1, E::load(d, p + n));
      acc2 = Op::combine(d, acc2, E::load(d, p + 2 * n));
      acc3 = Op::combine(d, acc3, E::load(d, p + 3 * n));
    }
    T* q = static_cast<T*>(o.dst) + i;
    store<E, kStores>(d, Op::finish(d, acc0, o.divisor), q);
    store<E, kStores>(d, Op::finish(d, acc1, o.divisor), q + n);
    store<E, kStores>(d, Op::finish(d, acc2, o.divisor), q + 2 * n);
    store<E, kStores>(d, Op::finish(d, acc3, o.divisor), q + 3 * n);
  }
  if (i != elems) fold_ends<E, Op>(o, i, elems);
  // Streaming stores may become visible after later normal stores, such as the flag that announces these bytes: wait
  // for them.
  if constexpr (kStores == Stores::streaming) hwy::FlushStream();
}

// The kernel proper: a FoldFn.
template <class E, class Op, Stores kStores>
void fold(void* dst, const void* const* src, uint32_t nsrc, uint64_t elems, uint32_t divisor) {
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
    fold_range<E, Op, 2>(Operands{dst, src, 2, 1}, 0, elems);
  } else if (dst != src[0]) {
    copy(dst, src[0], elems * sizeof(typename E::Stored), kStores);
  }
}

template <class E, class Op>
Kernel kernel() {
  return {&fold<E, Op, Stores::temporal>, &fold<E, Op, Stores::streaming>};
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_KERNELS_FOLD_INL_H_
