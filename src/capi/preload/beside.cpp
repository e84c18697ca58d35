// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/beside.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "capi/preload/telling.h"

namespace lanecast::preload {

BesideNccl::~BesideNccl() {
  unsigned long long calls = 0;
  if (info && lanecastCommRegisteredCalls(ours, &calls) == lanecastSuccess && calls != 0)
    tell_info("rank " + std::to_string(rank) + ": " + std::to_string(calls) + " calls have copied nothing, in windows");
  for (auto& [handle, known] : registered) known.memory->retire();
  for (auto& [handle, window] : nccls_windows)
    if (window.memory) window.memory->retire();
  lanecastCommDestroy(ours);
}

AllBeside& AllBeside::of_process() {
  static auto* const all = new AllBeside;  // never destroyed: programs leave communicators to the end of the process
  return *all;
}

AllBeside::AllBeside() {
  // A child has the parent's memory and not its GPU: NCCL's communicators are of no use there, and ours neither.
  pthread_atfork(nullptr, nullptr, [] { of_process().forked_ = true; });
}

std::shared_ptr<BesideNccl> AllBeside::find(NcclComm comm) {
  if (forked_.load(std::memory_order_relaxed)) return nullptr;  // set before the child's only thread went on
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(comm);
  return found == all_.end() ? nullptr : found->second;
}

void AllBeside::put(NcclComm comm, std::shared_ptr<BesideNccl> beside) {
  const std::lock_guard lock(mutex_);
  all_[comm] = std::move(beside);
}

std::shared_ptr<BesideNccl> AllBeside::take(NcclComm comm) {
  if (forked_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(comm);
  if (found == all_.end()) return nullptr;
  std::shared_ptr<BesideNccl> taken = std::move(found->second);
  all_.erase(found);
  return taken;
}

}  // namespace lanecast::preload
