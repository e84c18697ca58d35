// SPDX-License-Identifier: Apache-2.0
// Order on a GPU among a communicator's calls, whatever streams they were made on, and between streams.
#pragma once

#include <cstdint>
#include <memory>

#include "device/gpu/stream.h"

namespace lanecast {

class OrderOfCalls {
 public:
  explicit OrderOfCalls(std::shared_ptr<gpu::Device> device);

  /// The stream of calls that run beside the caller's.
  gpu::Stream own() const { return own_.get(); }
  /// Enqueued work on `after` waits for what is enqueued on `before` now.
  void order(gpu::Stream before, gpu::Stream after);
  gpu::OwnedEvent mark(gpu::Stream stream) const;
  void wait(const gpu::OwnedEvent& event, gpu::Stream stream) const;
  bool passed(const gpu::OwnedEvent& event) const;
  bool capturing(gpu::Stream stream) const;

  /// Has `make` enqueue a call behind the calls before; a captured one is ordered by its graph, and has no place among
  /// those that run now.
  template <class Make>
  void in_turn(gpu::Stream stream, bool captured, const Make& make) {
    if (captured) return make();
    const std::uint64_t number = begin_turn(stream);
    make();
    end_turn(stream, number);
  }
  /// Have the calls that came in turn run?
  bool idle() const { return !used_ || passed(last_); }

 private:
  std::uint64_t begin_turn(gpu::Stream stream) const;
  void end_turn(gpu::Stream stream, std::uint64_t number);

  std::shared_ptr<gpu::Device> device_;
  gpu::OwnedStream own_;
  gpu::OwnedEvent ordering_, last_;
  bool used_ = false;
  std::uint64_t last_stream_ = 0;  // gpu::Driver::number_of() that of the last call
};

}  // namespace lanecast
