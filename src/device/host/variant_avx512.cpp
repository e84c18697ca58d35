// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64 CPUs with AVX-512 (F, BW, DQ and VL); the build gives this file the flags. Vectors stay at 32
// bytes: what helps narrow floats is the instructions, while wider vectors stream no faster from memory.
#if defined(__AVX512F__)
#include "device/host/variant_table.h"

namespace lanecast::host {
constinit const Variant kAvx512 = make_variant("avx512");
}  // namespace lanecast::host
#endif
