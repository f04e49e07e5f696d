// Which instruction sets the kernels are compiled for. Included before any header of Highway.
//
// One level of x86 between the baseline and AVX2 is enough, as is one of AVX-512: the later ones have nothing that
// these kernels use. They also count on vectors whose length the compiler knows, so NEON serves ARM, not SVE.
#pragma once

#ifdef HWY_DISABLED_TARGETS
#error "kernels/targets.h comes before the headers of Highway, and HWY_DISABLED_TARGETS is set nowhere else"
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include "hwy/detect_targets.h"
// Older releases of Highway do not know these.
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif
