// SPDX-License-Identifier: Apache-2.0
#include "peers/nccl/communicator.h"

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/agreed.h"
#include "base/error.h"
#include "device/gpu/beside_captures.h"

namespace lanecast::nccl {
namespace {

constexpr int kOldest = 21700;  // with which a communicator that blocks nobody takes a number of blocks

/// Where it blocks nobody NCCL launches in a thread of its own, so every call is in progress at first, most not for
/// long.
constexpr auto kSoon = std::chrono::microseconds(200);

int op_of(ReduceOp op) {
  constexpr std::array kOps{0, 1, 3, 2, 4};  // ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg, as ReduceOp has them
  return kOps.at(static_cast<std::size_t>(op));
}

/// As ncclDataType_t; −1 for types that NCCL does not add.
int type_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return 0;
    case DType::uint8:
      return gpu::kNcclUint8;
    case DType::int32:
      return 2;
    case DType::uint32:
      return 3;
    case DType::int64:
      return 4;
    case DType::uint64:
      return 5;
    case DType::float16:
      return 6;
    case DType::float32:
      return 7;
    case DType::float64:
      return 8;
    case DType::bfloat16:
      return 9;
    default:
      return -1;
  }
}

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
  if (kind == Kind::gather || kind == Kind::scatter || kind == Kind::all_to_all) return std::string(name_of(kind));
  if (!reduces(kind)) return {};
  // Of floats its min and max lose NaN, and ours do not; its averages divide first, which loses small numbers.
  const bool differs = is_float(dtype) && (op == ReduceOp::min || op == ReduceOp::max);
  const bool has_op = op < ReduceOp::avg && !differs;
  if (has_op && type_of(dtype) >= 0) return {};
  return std::string(name_of(op)) + " of " + std::string(name_of(dtype));
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<const gpu::Device> device, const Bootstrap& bootstrap,
                                   const std::vector<std::string>& library_folders, Options options)
    : device_(std::move(device)),
      nccl_(agreed(bootstrap, [&] { return opened(library_folders); })),
      rank_(bootstrap.rank),
      options_(std::move(options)) {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());  // NCCL's own threads take care of themselves
  const gpu::NcclUniqueId id = id_for_all(*nccl_, bootstrap);
  gpu::NcclConfig config;
  config.blocking = 0;  // a call that waited inside NCCL could not be ended when a rank does not come
  if (options_.max_ctas > 0) config.max_ctas = options_.max_ctas;
  try {
    settle(nccl_->CommInitRankConfig(&comm_, bootstrap.size, id, rank_, &config), "ncclCommInitRankConfig");
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  // NCCL's threads end together with those of the host's other ranks, for which no call of NCCL's has a deadline.
  std::packaged_task<void()> close([device = device_, nccl = nccl_, comm = comm_] {
    const gpu::Device::Current current(*device);
    int state = nccl->CommFinalize(comm);
    while (state == gpu::kNcclInProgress) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (nccl->CommGetAsyncError(comm, &state) != gpu::kNcclSuccess) break;
    }
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

void NcclCommunicator::enqueue(const NcclCollective& call, gpu::Stream stream) {
  if (call.count == 0) return;
  const gpu::Device::Current current(*device_);
  const gpu::Nccl& nccl = *nccl_;
  switch (call.kind) {
    case Kind::all_gather:
      return settle(nccl.AllGather(call.in, call.out, call.count * size_of(call.dtype), gpu::kNcclUint8, comm_, stream),
                    "ncclAllGather");
    case Kind::broadcast:
      return settle(nccl.Broadcast(call.in, call.out, call.count * size_of(call.dtype), gpu::kNcclUint8, call.root,
                                   comm_, stream),
                    "ncclBroadcast");
    case Kind::reduce_scatter:
      return settle(
          nccl.ReduceScatter(call.in, call.out, call.count, type_of(call.dtype), op_of(call.op), comm_, stream),
          "ncclReduceScatter");
    case Kind::all_reduce:
      return settle(nccl.AllReduce(call.in, call.out, call.count, type_of(call.dtype), op_of(call.op), comm_, stream),
                    "ncclAllReduce");
    case Kind::reduce:
      return settle(
          nccl.Reduce(call.in, call.out, call.count, type_of(call.dtype), op_of(call.op), call.root, comm_, stream),
          "ncclReduce");
    default:
      throw InternalError("NCCL: no call for " + std::string(name_of(call.kind)));
  }
}

void NcclCommunicator::settle(int result, const char* call) const {
  const auto since = std::chrono::steady_clock::now();
  while (result == gpu::kNcclInProgress) {
    const auto waited = std::chrono::steady_clock::now() - since;
    if (waited < kSoon) {
      std::this_thread::yield();
    } else {
      options_.keep_waiting(std::chrono::duration<double>(waited).count());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (const int failed = nccl_->CommGetAsyncError(comm_, &result); failed != gpu::kNcclSuccess) refuse(failed, call);
  }
  if (result != gpu::kNcclSuccess) refuse(result, call);
}

void NcclCommunicator::check() const {
  if (comm_ == nullptr) return;
  int state = gpu::kNcclSuccess;
  const int result = nccl_->CommGetAsyncError(comm_, &state);
  if (result != gpu::kNcclSuccess) refuse(result, "ncclCommGetAsyncError");
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
