// SPDX-License-Identifier: Apache-2.0
// A transport for tests: another one that takes the memory of GPUs, which on the driver without a GPU is the host's. It
// holds its user to what it was told of that memory, and can do what libraries do: call the driver while messages move,
// or not return.
#pragma once

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/gpu/driver.h"
#include "wrapped_transport.h"

namespace lanecast {

class TakesGpus final : public WrappedTransport {
 public:
  struct How {
    bool takes = false;
    bool calls_driver = false;  // for each message that lies on a GPU, and so the user has to decide
    std::string stuck_while;    // such a file is there: progress() does not return
  };
  TakesGpus(std::unique_ptr<Transport> inner, How how) : WrappedTransport(std::move(inner)), how_(std::move(how)) {}

  std::optional<bool> takes(GpuVendor vendor) const override {
    if (!how_.takes || vendor != GpuVendor::nvidia) return false;
    return how_.calls_driver ? std::nullopt : std::optional(true);
  }
  std::string why_undecided(GpuVendor) const override {
    return how_.calls_driver ? "the transport of this test would call the GPU's driver while messages move" : "";
  }
  void register_memory(const GpuSpan& memory) override { registered_.push_back(memory); }
  void unregister_memory(const GpuSpan& memory) override {
    if (std::erase_if(registered_, [&](const GpuSpan& each) { return each.memory == memory.memory; }) != 1)
      throw InternalError("a GPU's memory is taken back that was not registered, or twice");
  }

  void post_send(Message& message) override {
    look_at(message);
    inner().post_send(message);
  }
  void post_recv(Message& message) override {
    look_at(message);
    inner().post_recv(message);
  }
  bool progress(std::vector<Message*>& done) override {
    while (!how_.stuck_while.empty() && access(how_.stuck_while.c_str(), F_OK) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (on_gpu_ > 0 && how_.calls_driver) call_driver();
    const std::size_t before = done.size();
    const bool moved = inner().progress(done);
    for (std::size_t k = before; k < done.size(); ++k)
      if (is_registered(*done[k])) --on_gpu_;
    return moved;
  }

 private:
  bool is_registered(const Message& message) const {
    for (const GpuSpan& each : registered_)
      if (!message.memory.empty() && message.memory[0].data >= each.memory.data &&
          message.memory[0].data + message.memory[0].bytes <= each.memory.data + each.memory.bytes)
        return true;
    return false;
  }
  void look_at(const Message& message) {
    if (registered_.empty()) return;
    if (is_registered(message) != (message.bytes >= kLeastOnGpu))
      throw InternalError("a message of " + std::to_string(message.bytes) + " bytes lies where it should not");
    if (is_registered(message)) ++on_gpu_;
  }
  void call_driver() {
    if (!driver_) driver_ = gpu::Driver::open();
    int device = 0;
    static_cast<void>(driver_->current_device(&device));
  }

  How how_;
  std::vector<GpuSpan> registered_;
  std::shared_ptr<const gpu::Driver> driver_;
  int on_gpu_ = 0;  // messages under way
};

}  // namespace lanecast
