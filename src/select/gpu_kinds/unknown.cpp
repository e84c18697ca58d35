// SPDX-License-Identifier: Apache-2.0
// A GPU that nobody has measured, or several kinds on one host. Times and cuts are those of the kind that was, H100 and
// H200: which way is ahead depends on the ratios of such times, and no result does. What would hold a faster link back
// is left out. `lanecast tune --device cuda` replaces the times.
#include "select/gpu_kinds/hopper.h"

namespace lanecast {
namespace {

constexpr GpuKind unmeasured() {
  GpuKind kind = gpu_kinds::kHopper;
  kind.names = {};
  kind.nccl = {};
  kind.learned = {};
  kind.two_shots.link_bytes_per_s = 0;
  kind.two_shots.link_of_several_bytes_per_s = 0;
  kind.direct.least_offer = std::size_t{512} << 10;  // over slower links a launch counts for less; reckoned
  return kind;
}

}  // namespace

constexpr GpuKind kUnknownGpu = unmeasured();

}  // namespace lanecast
