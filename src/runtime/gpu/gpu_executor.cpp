// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/gpu_executor.h"

#include <utility>

#include "base/agreed.h"

namespace lanecast {

GpuExecutor::GpuExecutor(const Bootstrap& bootstrap, const Topology& topology, const GpuOptions& options,
                         const GpuNeighbours& neighbours)
    : rank_(bootstrap.rank),
      gpu_(open_together(bootstrap, options)),
      enqueued_(*gpu_.device, agreed(bootstrap, [&] { return OrderOfCalls(gpu_.device); }), rank_),
      nccl_(gpu_, topology, rank_, enqueued_) {
  if (auto peers = connect_all(bootstrap, gpu_, neighbours.hosts)) {
    within_host_ = std::make_unique<WithinHost>(std::move(peers), gpu_, topology, bootstrap, enqueued_);
    within_host_->peers->listen(options.hears);
  } else {
    between_hosts_ = std::make_unique<BetweenHosts>(
        BetweenHosts::NetworkSurroundings{gpu_, topology, neighbours.hosts, enqueued_}, bootstrap, neighbours.among,
        agree_where_messages_lie(bootstrap, options, *gpu_.device));
  }
}

GpuExecutor::~GpuExecutor() { wait_for_device(); }

void GpuExecutor::wait_for_device() const {
  const gpu::Device::Current current(*gpu_.device);
  gpu_.device->driver().cuCtxSynchronize();  // its error would be one that others have raised
}

void GpuExecutor::set_timeout(double timeout_s) {
  if (std::exchange(gpu_.timeout_s, timeout_s) == timeout_s) return;
  if (within_host_) within_host_->peers->set_timeout(timeout_s);
  if (between_hosts_) between_hosts_->set_timeout(timeout_s);
}

void GpuExecutor::choose_by(const Models& models) {
  if (within_host_) within_host_->engines.choose_by(models);
}

bool GpuExecutor::idle() const {
  return enqueued_.order.idle() && (within_host_ ? within_host_->messages.idle() : between_hosts_->messages().idle());
}

void GpuExecutor::raise_fault() const {
  const auto fault = within_host_ ? within_host_->peers->fault() : between_hosts_->fault();
  if (fault) enqueued_.known.raise(*fault);
}

void GpuExecutor::poison() {
  if (within_host_) within_host_->peers->poison();
  if (between_hosts_) between_hosts_->poison();
}

void GpuExecutor::poison_peers() {
  if (!within_host_) return;
  within_host_->board.give_up();  // before: a kernel that ends so says nothing, and its host looks here
  within_host_->peers->poison_peers();
}

}  // namespace lanecast
