// SPDX-License-Identifier: Apache-2.0
// Which variants this CPU can run.
#include "device/host/variant.h"

namespace lanecast::host {

std::span<const Variant* const> usable_variants() {
#if defined(__x86_64__)
  static constexpr std::array<const Variant*, 3> kFastestFirst{&kAvx512, &kAvx2, &kBaseline};
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return std::span(kFastestFirst).subspan(avx512 ? 0 : avx2 ? 1 : 2);
#else
  static constexpr std::array<const Variant*, 1> kFastestFirst{&kBaseline};
  return kFastestFirst;
#endif
}

}  // namespace lanecast::host
