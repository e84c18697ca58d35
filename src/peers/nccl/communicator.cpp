// SPDX-License-Identifier: Apache-2.0
#include "peers/nccl/communicator.h"

#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/agreed.h"
#include "base/error.h"
#include "peers/nccl/connecting.h"

namespace lanecast::nccl {
namespace {

constexpr int kOldest = 21700;  // with which a communicator takes a number of blocks

std::shared_ptr<const gpu::Nccl> opened(const std::vector<std::string>& folders) {
  auto library = gpu::Nccl::open(folders);
  if (library->version() < kOldest)
    throw UsageError("NCCL in " + library->path() + " is older than 2.17; install a newer one, or name another " +
                     "algorithm than nccl");
  return library;
}

gpu::NcclUniqueId id_for_all(const gpu::Nccl& nccl, const Bootstrap& bootstrap) {
  gpu::NcclUniqueId id{};
  const std::string mine = agreed(bootstrap, [&] {
    if (bootstrap.rank != 0) return std::string();
    if (const int result = nccl.GetUniqueId(&id); result != gpu::kNcclSuccess)
      throw UsageError(std::string("NCCL: ncclGetUniqueId: ") + nccl.GetErrorString(result) + ": " +
                       nccl.GetLastError(nullptr));
    return std::string(id.bytes, sizeof(id.bytes));
  });
  const std::string known = bootstrap.all_gather_strings(mine)[0];
  std::memcpy(id.bytes, known.data(), sizeof(id.bytes));
  return id;
}

}  // namespace

std::string missing(Kind kind, DType dtype, ReduceOp op) {
  if (!reduces(kind)) return {};
  // Of floats its min and max lose NaN, and ours do not; its averages divide first, which loses small numbers.
  const bool differs = is_float(dtype) && (op == ReduceOp::min || op == ReduceOp::max);
  const bool has_op = op < ReduceOp::avg && !differs;
  if (has_op && adds(dtype)) return {};
  return std::string(name_of(op)) + " of " + std::string(name_of(dtype));
}

void require(const std::vector<std::string>& library_folders) { opened(library_folders); }

NcclCommunicator::NcclCommunicator(const std::shared_ptr<gpu::Device>& device, const Bootstrap& bootstrap,
                                   const std::vector<std::string>& library_folders, Options options)
    : device_(device),
      nccl_(agreed(bootstrap, [&] { return opened(library_folders); })),
      rank_(bootstrap.rank),
      size_(bootstrap.size),
      options_(std::move(options)) {
  const NcclPlace place{device, nccl_, bootstrap.rank, bootstrap.size, options_.max_ctas};
  const gpu::NcclUniqueId id = id_for_all(*nccl_, bootstrap);
  const OpenedNccl opened = opened_apart(place, id, options_.keep_waiting);
  const auto mine = [&] {
    if (!opened.error.empty()) throw UsageError(opened.error);
    return opened.comm;
  };
  comm_ = agreed(bootstrap, mine, [&] {
    const gpu::Device::Current current(*device_);
    if (opened.comm) nccl_->CommAbort(opened.comm);
  });
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  // NCCL's threads end together with those of the host's other ranks, for which no call of NCCL's has a deadline.
  std::packaged_task<void()> close([device = device_, nccl = nccl_, comm = comm_] {
    const gpu::Device::Current current(*device);
    nccl->CommFinalize(comm);
    nccl->CommDestroy(comm);
  });
  const std::future<void> closed = close.get_future();
  std::thread thread(std::move(close));
  // One that is not over stays behind: it holds what it needs.
  if (closed.wait_for(std::chrono::duration<double>(options_.close_timeout_s)) == std::future_status::ready)
    thread.join();
  else
    thread.detach();
}

void NcclCommunicator::enqueue(const NcclCollective& call, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  check(run(*nccl_, {comm_, rank_, size_}, call, stream), "a collective");
}

void NcclCommunicator::check(int result, const char* call) const {
  if (result != gpu::kNcclSuccess) refuse(result, call);
}

void NcclCommunicator::check() const {
  if (comm_ == nullptr) return;
  int state = gpu::kNcclSuccess;
  check(nccl_->CommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  if (state != gpu::kNcclSuccess && state != gpu::kNcclInProgress) refuse(state, "a collective under way");
}

void NcclCommunicator::refuse(int result, const char* call) const {
  throw TransportError("rank " + std::to_string(rank_) + ": NCCL: " + call + ": " + nccl_->GetErrorString(result) +
                       ": " + nccl_->GetLastError(comm_));
}

void NcclCommunicator::abort() {
  if (comm_ == nullptr) return;
  const gpu::Device::Current current(*device_);
  nccl_->CommAbort(std::exchange(comm_, nullptr));
}

}  // namespace lanecast::nccl
