// SPDX-License-Identifier: Apache-2.0
// A plan bound to a shape whose blocks lie on a GPU and whose messages are staged in memory of the host or the device:
// what the stream that takes the steps and the thread that moves the messages both go by.
#pragma once

#include <functional>
#include <vector>

#include "runtime/bound/layout.h"
#include "runtime/bound/signature.h"
#include "runtime/watch/call_log.h"

namespace lanecast {

/// A message of a chunk, and where it lies in the memory of the chunk's channel.
struct ChannelMessage {
  std::uint32_t step = 0;
  std::size_t bytes = 0;
  std::size_t offset = 0;
  bool on_device = false;    // else on the host, as short ones do; see kLeastOnGpu
  std::uint64_t number = 0;  // of the call's from this rank to that one, equal on both
};

/// Chunks of which those of all ranks fit into their channels, at least as many as the shape says: the same number on
/// all ranks. plan_of: by rank. Throws UsageError for plans that cannot be run so.
int chunks_that_fit(Shape shape, int ranks, const std::function<Plan(int)>& plan_of);

/// Throws UsageError for steps with more sources than a kernel takes.
void require_few_sources(const Plan& plan);

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class DevicePlan {
 public:
  /// on_device: where long messages with each peer lie; empty for a plan without any.
  DevicePlan(Plan plan, Shape shape, std::vector<bool> on_device = {});
  DevicePlan(const DevicePlan&) = delete;
  DevicePlan& operator=(const DevicePlan&) = delete;

  const Plan& plan() const { return plan_; }
  const Shape& shape() const { return shape_; }
  const Layout& layout() const { return layout_; }
  /// On the device, for all chunks in flight.
  std::size_t scratch_bytes() const;
  /// Of the steps on the device.
  const std::vector<std::uint32_t>& order() const { return order_; }
  const Signature& signature() const { return signature_; }
  const CallRecord& record() const { return record_; }

  /// The messages of a chunk that are not empty, in the order in which the device comes to them.
  void messages(Chunk chunk, std::vector<ChannelMessage>& found) const;

 private:
  std::uint64_t number_of(const Step& step, Chunk chunk) const;

  Plan plan_;
  Shape shape_;
  Layout layout_;
  std::vector<std::uint32_t> order_;
  std::vector<bool> on_device_;
  Signature signature_;
  CallRecord record_;
};

}  // namespace lanecast
