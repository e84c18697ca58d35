// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/exchange.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/running_time.h"
#include "runtime/request/coming_together.h"

namespace lanecast::preload {
namespace {

constexpr std::size_t kReasonBytes = 256;

}  // namespace

NcclExchange::NcclExchange(const RealNccl& nccl, NcclComm comm) : nccl_(nccl), comm_(comm) {
  int ordinal = 0;
  require(nccl.CommUserRank(comm, &rank_), "ncclCommUserRank");
  require(nccl.CommCount(comm, &size_), "ncclCommCount");
  require(nccl.CommCuDevice(comm, &ordinal), "ncclCommCuDevice");
  device_ = gpu::Device::open(ordinal);
  const gpu::Device::Current current(*device_);
  memory_ = std::make_unique<gpu::DeviceMemory>(device_, kPiece * static_cast<std::size_t>(size_ + 1));
  host_ = std::make_unique<gpu::PinnedMemory>(device_, memory_->bytes());
  stream_ = std::make_unique<gpu::OwnedStream>(device_);
  event_ = std::make_unique<gpu::OwnedEvent>(device_);
}

void NcclExchange::all_gather(const void* in, void* out, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* into = static_cast<std::byte*>(out);
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    show(from + at, piece);
    gather(piece);
    collect(into + at, piece, bytes);
  }
}

void NcclExchange::show(const void* in, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  std::memcpy(host_->host(), in, bytes);
  device_->check(device_->driver().cuMemcpyAsync(memory_->address(), host_->device(), bytes, stream_->get()),
                 "cuMemcpyAsync");
}

void NcclExchange::gather(std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  const gpu::Address mine = memory_->address();
  require(nccl_.AllGather(reinterpret_cast<const void*>(mine), reinterpret_cast<void*>(mine + kPiece), bytes,
                          gpu::kNcclUint8, comm_, stream_->get()),
          "ncclAllGather");
}

void NcclExchange::collect(std::byte* out, std::size_t bytes, std::size_t stride) {
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuMemcpyAsync(host_->device() + kPiece, memory_->address() + kPiece,
                                                 bytes * static_cast<std::size_t>(size_), stream_->get()),
                 "cuMemcpyAsync");
  wait();
  for (int r = 0; r < size_; ++r) std::memcpy(out + r * stride, host_->host() + kPiece + r * bytes, bytes);
}

void NcclExchange::wait() {
  const gpu::Driver& driver = device_->driver();
  device_->check(driver.cuEventRecord(event_->get(), stream_->get()), "cuEventRecord");
  const double timeout_s = timeout_to_begin_s({});
  Countdown left{std::chrono::duration<double>(timeout_s)};
  for (int state = driver.cuEventQuery(event_->get()); state != gpu::kSuccess;
       state = driver.cuEventQuery(event_->get())) {
    if (state != gpu::kNotReady) device_->check(state, "cuEventQuery");
    int met = gpu::kNcclSuccess;
    require(nccl_.CommGetAsyncError(comm_, &met), "ncclCommGetAsyncError");
    if (met != gpu::kNcclInProgress) require(met, "what NCCL has met");
    if (left.over())
      throw TransportError("the other ranks did not answer within " + std::to_string(timeout_s) +
                           " s: is liblanecast_nccl.so preloaded on all of them? It has to be on all or on none");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void NcclExchange::require(int result, const char* call) const {
  if (result != gpu::kNcclSuccess)
    throw TransportError(std::string(call) + " returned " + std::to_string(result) + ": " + nccl_.GetLastError(comm_));
}

bool Session::all_say(State state, std::size_t bytes) {
  struct Said {
    State state;
    std::size_t bytes;
  };
  Said mine{};
  mine.state = state;
  mine.bytes = bytes;
  std::vector<Said> all(static_cast<std::size_t>(exchange_.size()));
  exchange_.all_gather(&mine, all.data(), sizeof mine);
  over_ = !std::ranges::all_of(all, [&](const Said& word) { return word.state == state && word.bytes == bytes; });
  return !over_;
}

bool Session::step(const void* in, void* out, std::size_t bytes) {
  if (over_ || !all_say(State::going, bytes)) return false;
  exchange_.all_gather(in, out, bytes);
  return true;
}

bool Session::all_are_well(std::string& failure) {
  if (!over_) all_say(failure.empty() ? State::done : State::gave_up, 0);
  if (!over_ && failure.empty()) return true;
  // All have heard of it, so all come here.
  std::array<char, kReasonBytes> mine{};
  failure.copy(mine.data(), mine.size() - 1);
  std::vector<std::array<char, kReasonBytes>> all(static_cast<std::size_t>(exchange_.size()));
  exchange_.all_gather(mine.data(), all.data(), mine.size());
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r][0] != '\0') {
      failure = "rank " + std::to_string(r) + ": " + all[r].data();
      break;
    }
  return false;
}

}  // namespace lanecast::preload
