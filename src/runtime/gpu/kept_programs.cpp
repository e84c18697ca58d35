// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/kept_programs.h"

#include "device/gpu/beside_captures.h"

namespace lanecast {

void KeptPrograms::keep(const std::shared_ptr<const BoundProgram>& program, bool captured) {
  if ((captured ? captured_ : running_).contains(program)) return;
  known_.add(program);
  if (captured) {
    captured_.insert(program);
    return;
  }
  const gpu::BesideCaptures beside(device_.driver());
  if (running_.size() >= kMost) device_.check(device_.driver().cuCtxSynchronize(), "cuCtxSynchronize");
  if (running_.size() >= kMost || calls_.idle()) running_.clear();
  running_.insert(program);
}

}  // namespace lanecast
