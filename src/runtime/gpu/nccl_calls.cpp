// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/nccl_calls.h"

#include <cstdlib>

#include "algorithms/registry.h"
#include "base/agreed.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {
MarkedNccl::MarkedNccl(const OpenGpu& gpu, const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                       const std::function<void(double)>& keep_waiting)
    : device_(gpu.device),
      marks_(agreed(bootstrap, [&] { return gpu::PinnedMemory(gpu.device, 2 * kApart); })),
      nccl_(gpu.device, bootstrap, library_folders, {gpu.max_ctas, gpu.timeout_s, keep_waiting}) {}

std::uint32_t MarkedNccl::enqueue(const Call& call, gpu::Stream stream) {
  const std::uint32_t number = ++calls_;
  mark(0, stream);
  capture(call, stream);
  mark(1, stream);
  return number;
}

void MarkedNccl::capture(const Call& call, gpu::Stream stream) const {
  nccl_.enqueue({call.kind, call.dtype, call.op, call.in, call.out, call.count, call.root}, stream);
}

void MarkedNccl::mark(std::size_t which, gpu::Stream stream) const {
  device_->check(device_->driver().cuStreamWriteValue32(stream, marks_.device() + which * kApart, calls_, 0),
                 "cuStreamWriteValue32");
}

bool MarkedNccl::reached(std::size_t mark, std::uint32_t number) const {
  const auto* const at = reinterpret_cast<const std::uint32_t*>(marks_.host() + mark * kApart);
  // Acquire: who sees that a call has ended sees what it has written to host memory.
  return static_cast<std::int32_t>(__atomic_load_n(at, __ATOMIC_ACQUIRE) - number) >= 0;
}

bool NcclRun::advance() {
  bool moved = router_.progress();
  if (!begun_ && nccl_->has_begun(number_)) moved = begun_ = true;
  if (begun_ && !ended_ && nccl_->has_ended(number_)) moved = ended_ = true;
  if (!moved) nccl_->check();
  return moved;
}

std::string NcclRun::waiting_for(int /*peer*/) const {
  return "NCCL's " + std::string(name_of(what_->plan.collective.kind)) + " on a GPU";
}

std::vector<int> NcclRun::awaited_peers() const {
  const Plan& plan = what_->plan;
  std::vector<int> peers;
  for (int rank = 0; rank < plan.collective.size; ++rank)
    if (rank != plan.rank) peers.push_back(rank);
  return peers;
}

void NcclCalls::look_for_it(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                            const std::string& refused) {
  std::string mine = refused;
  try {
    if (mine.empty()) nccl::require(library_folders);
  } catch (const std::exception& error) {  // whatever it is, the others are told
    mine = error.what();
  }
  const char* const switched = std::getenv("NCCL_NVLS_ENABLE");
  constexpr int kFewestByMulticast = 3;  // among fewer NCCL does not take it
  const bool multicast = bootstrap.size >= kFewestByMulticast && gpu_.device->has_multicast() &&
                         !(switched && std::string_view(switched) == "0");
  const std::vector<std::string> all = bootstrap.all_gather_strings((multicast ? "m" : " ") + mine);
  found_ = {{}, true};
  for (int r = 0; r < bootstrap.size; ++r) {
    found_.multicast &= all[r][0] == 'm';
    if (found_.why_not.empty() && all[r].size() > 1)
      found_.why_not = "rank " + std::to_string(r) + ": " + all[r].substr(1);
  }
}

void NcclCalls::open(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                     const std::function<void(double)>& keep_waiting) {
  const gpu::Device::Current current(*gpu_.device);
  nccl_ = std::make_shared<MarkedNccl>(gpu_, bootstrap, library_folders, keep_waiting);
}

void NcclCalls::abort() {
  if (nccl_) nccl_->abort();
}

std::shared_ptr<const DescribedCall> NcclCalls::described(const Call& call, bool in_place) {
  const Collective collective = collective_of(call, topology_.size(), in_place);
  Call whole = call;
  whole.chunks = 1;  // NCCL cuts messages by itself
  if (const auto* const found = described_.find(collective, whole, kNccl)) return *found;
  Plan plan = make_plan(collective, rank_, topology_, kNccl);
  const Shape shape = shape_of(whole);
  auto what = std::make_shared<DescribedCall>(plan, signature_on_gpus(plan, shape), record_of(plan, shape));
  return described_.make(collective, whole, kNccl, std::move(what));
}

std::shared_ptr<NcclRun> NcclCalls::enqueue(const Call& call, bool in_place, Router& router, gpu::Stream stream) {
  const gpu::Device::Current current(*gpu_.device);
  std::shared_ptr<const DescribedCall> what = described(call, in_place);
  std::uint32_t number = 0;
  calls_.order.in_turn(stream, /*captured=*/false, [&] { number = nccl_->enqueue(call, stream); });
  return std::make_shared<NcclRun>(std::move(what), number, nccl_, router);
}

void NcclCalls::capture(const Call& call, bool in_place, const peers::PeerGroup& peers, gpu::Stream stream) {
  const gpu::Device::Current current(*gpu_.device);
  const std::shared_ptr<const DescribedCall> what = described(call, in_place);
  const std::uint16_t signature = folded(what->signature.hash);
  calls_.known.add(signature, what->signature.text);
  peers.barrier(signature, stream);
  nccl_->capture(call, stream);
}

}  // namespace lanecast
