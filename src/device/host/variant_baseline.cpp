// SPDX-License-Identifier: Apache-2.0
// The kernels for any CPU of the target architecture: SSE2 on x86-64, NEON on aarch64.
#include "device/host/variant_table.h"

namespace lanecast::host {
constinit const Variant kBaseline = make_variant("baseline");
}  // namespace lanecast::host
