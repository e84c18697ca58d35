// SPDX-License-Identifier: Apache-2.0
// A plan bound to a shape, whose steps are enqueued on a GPU's stream in the plan's order: nothing waits on the host.
#pragma once

#include <string>

#include "peers/peer_group.h"
#include "runtime/bound/layout.h"
#include "runtime/bound/signature.h"
#include "select/peer_engines.h"

namespace lanecast {

/// A call's buffers, and the symmetric memory that they lie in; null where they do not.
struct InHostBuffers {
  const void* in = nullptr;
  void* out = nullptr;
  const peers::SharedMemory* symmetric_in = nullptr;
  const peers::SharedMemory* symmetric_out = nullptr;
  peers::WindowBuffers windows;  // places of 0 where they lie in none; a table of 0 for no offer
};

/// Do the buffers that peers reach lie in windows of this rank?
bool can_offer(Kind kind, const InHostBuffers& buffers);

/// Has the direct engine what it needs: symmetric memory where it reads or writes at the peers?
bool direct_takes(Kind kind, bool own_counts, const InHostBuffers& buffers);

class InHostCall {
 public:
  /// Throws UsageError for a plan with steps that no stream orders yet: messages between two ranks, and reductions.
  InHostCall(Plan plan, Shape shape, PeerEngine engine);
  InHostCall(const InHostCall&) = delete;
  InHostCall& operator=(const InHostCall&) = delete;

  void enqueue(const InHostBuffers& buffers, peers::PeerGroup& peers, gpu::Stream stream);

  /// "all_reduce of 1000 float32, sum, by peer_kernel"
  const std::string& text() const { return signature_.text; }
  /// Equal on ranks that make the same call.
  std::uint16_t signature(const InHostBuffers& buffers) const;

 private:
  /// Where the buffers that peers reach lie in symmetric memory: at equal places on all ranks.
  std::uint64_t places_of(const InHostBuffers& buffers) const;

  /// Is a step the copy that a broadcast's root keeps? The engines make it beside what they send: behind that a copy of
  /// 64 MiB took 66 us, a quarter of the call.
  bool goes_with_group(std::uint32_t copy) const;
  void call_group(std::uint32_t step, const InHostBuffers& buffers, peers::PeerGroup& peers, gpu::Stream stream) const;

  Plan plan_;
  Shape shape_;
  PeerEngine engine_;
  Layout layout_;
  BoundSteps bound_;
  Signature signature_;
};

}  // namespace lanecast
