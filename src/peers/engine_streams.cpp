// SPDX-License-Identifier: Apache-2.0
#include "peers/engine_streams.h"

#include <utility>

namespace lanecast::peers {

EngineStreams::EngineStreams(std::shared_ptr<gpu::Device> device, int members)
    : device_(std::move(device)),
      credit_(device_),
      unpack_(device_),
      begun_(device_),
      credited_(device_),
      unpacked_(device_) {
  for (int k = 0; k < 2 * (members - 1); ++k) {
    push_.emplace_back(device_);
    pushed_.emplace_back(device_);
  }
}

void EngineStreams::fork(gpu::Stream stream) const {
  const gpu::Driver& driver = device_->driver();
  device_->check(driver.cuEventRecord(begun_.get(), stream), "cuEventRecord");
  const auto follow = [&](const gpu::OwnedStream& on) {
    device_->check(driver.cuStreamWaitEvent(on.get(), begun_.get(), 0), "cuStreamWaitEvent");
  };
  for (const gpu::OwnedStream& push : push_) follow(push);
  follow(credit_);
  follow(unpack_);
}

void EngineStreams::join(gpu::Stream stream) const {
  const gpu::Driver& driver = device_->driver();
  const auto follow = [&](const gpu::OwnedStream& from, const gpu::OwnedEvent& event) {
    device_->check(driver.cuEventRecord(event.get(), from.get()), "cuEventRecord");
    device_->check(driver.cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
  };
  for (std::size_t k = 0; k < push_.size(); ++k) follow(push_[k], pushed_[k]);
  follow(credit_, credited_);
  follow(unpack_, unpacked_);
}

}  // namespace lanecast::peers
