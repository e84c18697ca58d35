// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64 CPUs with AVX2 and F16C; the build gives this file the flags.
#if defined(__AVX2__)
#include "device/host/variant_table.h"

namespace lanecast::host {
constinit const Variant kAvx2 = make_variant("avx2");
}  // namespace lanecast::host
#endif
