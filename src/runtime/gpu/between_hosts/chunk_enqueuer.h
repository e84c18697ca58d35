// SPDX-License-Identifier: Apache-2.0
// The device's half of a call whose messages pass through the host's memory: each chunk's steps, enqueued on the stream
// of the chunk's channel in the order that verify() has proven. The host never waits.
#pragma once

#include <vector>

#include "runtime/bound/span_ops.h"
#include "runtime/gpu/between_hosts/chunk_channel.h"
#include "runtime/gpu/between_hosts/device_plan.h"
#include "runtime/gpu/between_hosts/host_groups.h"

namespace lanecast {

/// What the steps of a call are enqueued with.
struct EnqueueTools {
  const peers::Launches& launches;
  HostGroups* peers;         // null where a plan has no groups
  gpu::Handshake handshake;  // but for the counters and the peer
  int reducer_blocks;        // of kernels that add
};

class ChunkEnqueuer {
 public:
  ChunkEnqueuer(const DevicePlan& plan, const EnqueueTools& tools) : plan_(plan), tools_(tools) {}

  /// in and out lie on the device.
  void enqueue(Chunk chunk, ChunkChannel& channel, std::byte* in, std::byte* out);

 private:
  void enqueue(std::uint32_t i);  // step
  void copy(std::span<const Span> to, std::span<const Span> from, std::size_t bytes);
  void reduce(const Step& step, std::span<const Span> to, std::size_t bytes);
  void call_group(std::uint32_t i);

  /// That all which is enqueued so far is done: together with the wait that comes next, or before other work.
  void say();
  void say_now();
  /// Until the host says that it has come so far. peer: for whose message it waits, −1 for nobody's.
  void await(int peer);
  void shake_hands(int peer, bool waits);

  const DevicePlan& plan_;
  EnqueueTools tools_;
  ChunkChannel* channel_ = nullptr;
  Chunk chunk_;
  BoundSteps bound_;
  bool to_say_ = false;
  std::vector<ChannelMessage> messages_;
  std::size_t next_message_ = 0;
  ReduceSources sources_;  // of the step under way
};

}  // namespace lanecast
