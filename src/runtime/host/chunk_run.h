// SPDX-License-Identifier: Apache-2.0
// One chunk in flight: the plan's steps bound to a slice of the buffers, each started as soon as it may.
#pragma once

#include <queue>

#include "runtime/bound/layout.h"
#include "runtime/bound/span_ops.h"
#include "runtime/host/call_memory.h"
#include "runtime/host/prepared_plan.h"
#include "runtime/host/turns.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// What all chunks of a call share.
struct CallContext {
  const PreparedPlan& prepared;
  const Shape& shape;
  const Layout& layout;
  Router& router;
  CallMemory& memory;
  Turns& groups;               // turns at each of Plan::groups
  Turns& sends;                // and at each step that sends over a wire
  const std::uint32_t& stamp;  // of the call's messages
  std::uint32_t window = 0;    // a step may start when it is among the first `window` unfinished ones
};

class ChunkRun {
 public:
  explicit ChunkRun(const CallContext& context);
  ChunkRun(const ChunkRun&) = delete;
  ChunkRun& operator=(const ChunkRun&) = delete;

  struct Memory {
    std::byte* in;
    std::byte* out;
    std::byte* scratch;  // Layout::scratch_bytes(), of this chunk alone
  };
  void begin(Chunk chunk, const Memory& memory);
  /// Starts whatever may start; finished() may hold afterwards.
  void start_ready();
  /// Does a slice of a copy. moved: messages move, and only a copy that a step waits for goes on beside them. True when
  /// there was one.
  bool copy_some(bool moved);
  bool finished() const { return unfinished_ == 0; }
  /// Nothing more to do for this call.
  void retire() { chunk_.count = 0; }
  bool retired() const { return chunk_.count == 0; }
  Chunk chunk() const { return chunk_; }

  /// Group calls come back from the transports as what they were posted as; these know their way home.
  struct StepMessage final : Posted {
    void arrived() override { run->arrived(*this); }
    ChunkRun* run = nullptr;
    std::uint32_t step = 0;
    std::int64_t posted_ns = 0;  // where steps are recorded
    BufferPool::Buffer staged;
    Span staged_span;
    ReduceOnArrival reduction;
    bool here = false;  // before the step's turn
  };
  struct StepGroup : GroupCall {
    ChunkRun* run = nullptr;
    std::uint32_t step = 0;
    std::int64_t posted_ns = 0;
    BufferPool::Buffer staged_in, staged_out;
    std::vector<std::size_t> elements;
  };
  void arrived(StepGroup& call);

  /// Started but unfinished steps, and receives that are held, which wait for the same peer; the oldest first.
  std::vector<std::uint32_t> waiting() const;

 private:
  void arrived(StepMessage& message);
  void unstage(StepMessage& message);

  enum class State : std::uint8_t { waiting, held, started, finished };

  void start(std::uint32_t step);
  void finish(std::uint32_t step);
  void send(std::uint32_t step);
  void post_send(std::uint32_t step);
  /// Is this a receive whose exchange's send has not been posted, so that its answer would stand behind the peer's
  /// bytes?
  bool is_early(std::uint32_t step) const;
  void let_go_of_receive(std::uint32_t send);
  /// Of what the step writes, where it is then sent to a peer that may read it; null elsewhere.
  StoreChoice* stores_for_reader(std::uint32_t step) const;
  void receive(std::uint32_t step);
  void post_receive(std::uint32_t step);
  /// Posts receives of what is to be added, ahead of the additions before them.
  void receive_ahead();
  bool is_ahead(std::uint32_t step) const { return messages_[step].staged.data && state_[step] == State::waiting; }
  void call_group(std::uint32_t step);
  void post_group(std::uint32_t step);
  Reduction reduction(const Step& step) const;
  /// What takes messages to and from this peer.
  Transport& transport_to(int peer) const;
  /// Names the message: peer, tag and stamp.
  Transport& address(StepMessage& message, std::uint32_t step);
  /// Now, where steps are recorded.
  std::int64_t begin_ns() const;
  void record_message(std::uint32_t step, std::size_t bytes, std::int64_t posted_ns) const;
  /// kind: what was done, which may be a part of the step.
  void record_work(std::uint32_t step, StepKind kind, std::size_t bytes, std::int64_t begin_ns) const;
  /// It has become this chunk's turn at a group that it has waited for.
  void take_turn(std::int32_t group);
  /// The same at a step that sends.
  void take_turn_to_send(std::uint32_t step);
  bool takes_turns(std::uint32_t step) const;

  CallContext context_;
  const Plan& plan_;
  Chunk chunk_;
  int bound_chunk_ = -1;
  BoundSteps bound_;
  std::vector<State> state_;
  std::vector<bool> posted_;  // of sends, where there are exchanges
  std::vector<std::uint32_t> waits_;
  /// Steps that wait for no other one, the oldest first.
  using Ready = std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;
  void make_ready(std::uint32_t step);
  bool may_start(const Ready& steps) const {
    return !steps.empty() && steps.top() < first_unfinished_ + context_.window;
  }
  Ready ready_sends_, ready_;  // the former before the latter, where sends_first_
  struct Copy {
    std::uint32_t step;
    SpanCursor src, dst;
    std::size_t left_bytes;
    Stores stores;  // where nobody chooses
    bool awaited;   // by another step
    StoreChoice* choice;
  };
  std::vector<Copy> copies_;      // started ones
  std::uint32_t next_ahead_ = 0;  // steps before it have been posted ahead, or are not to be
  std::size_t ahead_bytes_ = 0;   // of messages posted ahead whose turn has not come
  std::uint32_t first_unfinished_ = 0;
  std::uint32_t unfinished_ = 0;
  std::vector<StepMessage> messages_;   // of each step
  ReduceSources sources_;               // of the reduction under way
  std::vector<StepGroup> groups_;       // of each Plan::groups
  const std::size_t idle_slice_bytes_;  // of a copy that no step waits for: when nothing else moves
  const bool sends_first_;              // where long messages are announced
};

}  // namespace lanecast
