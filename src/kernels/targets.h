// Which instruction sets the kernels are compiled for. Included before any header of Highway.
//
// One level of x86 between the baseline and AVX2 is enough, as is one of AVX-512: the later ones have nothing that
// these kernels use. They also count on vectors whose length the compiler knows, so NEON serves ARM, not SVE.
#pragma once

#ifdef HWY_DISABLED_TARGETS
#error "kernels/targets.h comes before the headers of Highway, and HWY_DISABLED_TARGETS is set nowhere else"
#endif
// Sanitizers take minutes to compile these loops, and look at the code around the instructions, not at them: the
// baseline and AVX2, which every x86 server has, will do. Other builds test all.
#if defined(__has_feature)
#define HOCKET_HAS_FEATURE(x) __has_feature(x)
#else
#define HOCKET_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HOCKET_HAS_FEATURE(address_sanitizer) || \
    HOCKET_HAS_FEATURE(thread_sanitizer) || HOCKET_HAS_FEATURE(undefined_behavior_sanitizer)
#define HOCKET_SPARED_TARGETS (HWY_SSE4 | HWY_AVX3)
#define HWY_BROKEN_EMU128 1  // older releases of Highway: a baseline of single lanes
#else
#define HOCKET_SPARED_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS                                                                                  \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV | HOCKET_SPARED_TARGETS)
#include "hwy/detect_targets.h"
// Older releases of Highway do not know these.
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif
