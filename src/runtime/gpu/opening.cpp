// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/opening.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/agreed.h"

namespace lanecast {
namespace {

/// Of all ranks, told to all, so that a GPU that two of them use is found, and no third one waits for those two.
void refuse_shared(const Bootstrap& bootstrap, const gpu::Device& device) {
  const auto [uuid, words] =
      agreed(bootstrap, [&] { return std::pair(device.uuid(), device.name() + ", " + device.pci_bus_id()); });
  const std::vector<std::string> all = bootstrap.all_gather_strings(uuid + words);
  std::map<std::string, int> first;  // rank of each GPU
  for (int r = 0; r < bootstrap.size; ++r) {
    const auto [other, is_new] = first.try_emplace(all[r].substr(0, uuid.size()), r);
    if (!is_new)
      throw UsageError("device: ranks " + std::to_string(other->second) + " and " + std::to_string(r) +
                       " use the same GPU (" + all[r].substr(uuid.size()) +
                       "); give each its own, or set allow_shared_gpu=True to try things out");
  }
}

/// Of all ranks' GPUs, by its driver's name; empty where there are several kinds.
std::string common_kind(const Bootstrap& bootstrap, const gpu::Device& device) {
  const std::string mine = agreed(bootstrap, [&] { return device.name(); });
  const std::vector<std::string> all = bootstrap.all_gather_strings(mine);
  return std::ranges::count(all, all[0]) == bootstrap.size ? all[0] : std::string();
}

}  // namespace

OpenGpu open_together(const Bootstrap& bootstrap, const GpuOptions& options) {
  auto device = agreed(bootstrap, [&] {
    auto opened = gpu::Device::open(options.device);
    if (options.stream && opened->captures(*options.stream))
      throw UsageError("rank " + std::to_string(bootstrap.rank) +
                       ": no CUDA graph can capture a communicator's first call on a GPU, which opens it; make the " +
                       "communicator with device=N, or a call before the capture");
    return opened;
  });
  if (!options.shared) refuse_shared(bootstrap, *device);
  auto kernels = agreed(bootstrap, [&] {
    return gpu::Kernels::on(device, gpu::kCollectiveKernels, {options.library_folders, options.cache_folder});
  });
  std::string kind = common_kind(bootstrap, *device);
  return {std::move(device), std::move(kernels), options.timeout_s, options.max_ctas, std::move(kind)};
}

std::unique_ptr<peers::PeerGroup> connect_all(const Bootstrap& bootstrap, const OpenGpu& gpu,
                                              const std::vector<std::string>& hosts) {
  if (std::ranges::count(hosts, hosts[0]) != bootstrap.size) return nullptr;
  if (bootstrap.size > gpu::kMostRanks)
    throw UsageError("GPUs: " + std::to_string(bootstrap.size) + " ranks on one host, and peer memory takes up to " +
                     std::to_string(gpu::kMostRanks));
  peers::PeerOptions options;
  options.timeout_s = gpu.timeout_s;
  options.kind = &gpu_kind(gpu.kind);
  if (gpu.max_ctas) options.max_ctas = std::min(gpu.max_ctas, options.max_ctas);
  return std::make_unique<peers::PeerGroup>(gpu.device, gpu.kernels, bootstrap, options);
}

WhereMessagesLie agree_where_messages_lie(const Bootstrap& bootstrap, const GpuOptions& options,
                                          const gpu::Device& device) {
  WhereMessagesLie mine = agreed(bootstrap, [&] { return options.places(device); });
  const std::string direct = "direct";
  const std::vector<std::string> all = bootstrap.all_gather_strings(mine.any() ? direct : mine.why_staged);
  if (std::ranges::count(all, direct) == bootstrap.size) return mine;
  std::ranges::fill(mine.least_on_device, WhereMessagesLie::kNever);
  mine.needs_context = false;
  for (int r = 0; r < bootstrap.size && mine.why_staged.empty(); ++r)
    if (all[r] != direct && !all[r].empty()) mine.why_staged = "rank " + std::to_string(r) + ": " + all[r];
  return mine;
}

}  // namespace lanecast
