// SPDX-License-Identifier: Apache-2.0
// What a NIC copies GPU memory with: a stream of its rank's GPU, and the memory of ports, opened there at first use.
//
// A chain of copies and words that lies on GPUs from end to end goes on while kernels of the application spin on all
// multiprocessors; one copy from the host's memory in it would wait until they end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "device/gpu/memory.h"
#include "device/gpu/stream.h"
#include "transport/emulated/port.h"

namespace lanecast::emulated {

/// Memory that a work names is gone: its rank has given up.
struct Withdrawn : TransportError {
  Withdrawn() : TransportError("a work names GPU memory that has been withdrawn") {}
};

class Engine {
 public:
  /// Of the GPU with this bus id, as this process sees it. Throws UsageError where there is none.
  explicit Engine(const std::string& bus_id);

  /// Where a place of the port's memory is, for this GPU. Throws Withdrawn, and for bytes beyond its end.
  gpu::Address locate(const PortMemory& port, const RegisteredPlace& place, std::uint64_t bytes);
  /// Once no copy is under way, lets go of what was withdrawn, or of all memory of this port.
  void close_withdrawn();
  void forget(const PortMemory& port);

  /// Copies and words are done in this order. With the GPU current, see device().
  void copy(gpu::Address to, gpu::Address from, std::uint64_t bytes);
  void write(gpu::Address at, std::uint32_t value);
  /// A mark behind all of that; its number.
  std::uint64_t mark();
  bool reached(std::uint64_t mark);

  const gpu::Device& device() const { return *device_; }

 private:
  struct Opened {
    std::unique_ptr<gpu::OpenedMemory> memory;
    Registration* entry = nullptr;
  };
  Opened open(Registration& entry) const;
  template <class Goes>
  void close_where(const Goes& goes);
  void check(int result, const char* call) const { device_->check(result, call); }

  std::shared_ptr<gpu::Device> device_;
  gpu::OwnedStream stream_;
  std::map<const Registration*, Opened> opened_;
  std::deque<gpu::OwnedEvent> marks_;   // under way, the oldest first
  std::deque<gpu::OwnedEvent> unused_;  // to be used again
  std::uint64_t reached_ = 0;           // marks
};

}  // namespace lanecast::emulated
