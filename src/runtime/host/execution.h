// SPDX-License-Identifier: Apache-2.0
// Runs a plan over transports, chunk by chunk; whatever may start is started, and that makes the levels overlap.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/agree/ordered_call.h"
#include "runtime/agree/roll_call.h"
#include "runtime/host/call_memory.h"
#include "runtime/host/chunk_run.h"
#include "runtime/request/executor_options.h"
#include "runtime/watch/surprises.h"

namespace lanecast {

/// A plan bound to a shape. It can be started again and again, also with other buffers, and then allocates nothing.
class Execution final : public OrderedCall {
 public:
  /// `memory`: shared with other executions, of which one runs at a time.
  Execution(std::shared_ptr<PreparedPlan> prepared, Shape shape, Router& router, CallMemory& memory,
            const ExecutorOptions& options);

  /// With a stamp, members of a library's collectives call the roll before the first step; without, only where their
  /// group is still to be opened.
  void start(const std::byte* in, std::byte* out, std::uint32_t stamp) override;
  bool advance() override;
  /// Whether the transports have been given all groups of the plan. What opens them is advance(), after a roll call.
  bool has_groups() const { return prepared_->handles.size() == prepared_->plan.groups.size(); }
  bool finished() const override { return chunks_left_ == 0; }

  const Plan& plan() const { return prepared_->plan; }
  const Shape& shape() const { return shape_; }
  const Layout& layout() const { return layout_; }
  std::size_t scratch_bytes() const { return runs_.size() * layout_.scratch_bytes(); }
  const Signature& signature() const override { return signature_; }
  const CallRecord& record() const override { return record_; }
  /// For whoever times the calls.
  Expectation& expectation() { return expectation_; }

  /// "step 3 of 12: recv from rank 1 …, chunk 0 of 4, of all_reduce by ring"
  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int peer) const override;
  Needs needs(int peer) const override;
  /// Does it wait for that peer among others to come to a library's collective of this call?
  bool calls_roll_of(int peer) const;

 private:
  /// moved: messages have. Whether anything did.
  bool advance_roll_call(bool moved);
  bool advance_steps(bool moved);
  bool all_have_come() const;
  bool opens_group_of(const std::vector<int>& members) const;
  /// False where members are still to come.
  bool open_groups();
  void begin_steps();
  void begin_next(std::size_t run);  // chunk
  void refill();
  bool awaits(std::uint32_t index, int peer) const;  // a step
  void record_waiting(bool moved);

  std::shared_ptr<PreparedPlan> prepared_;
  Shape shape_;
  Layout layout_;
  Signature signature_;
  CallRecord record_;
  Expectation expectation_;
  Router& router_;
  CallMemory& memory_;
  Turns group_turns_, send_turns_;
  std::deque<RollCall> roll_calls_;  // of each set of members
  std::vector<std::unique_ptr<ChunkRun>> runs_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::byte* scratch_ = nullptr;  // of the runs, one after the other
  std::uint32_t stamp_ = 0;
  const Group* opening_ = nullptr;  // which the transport waits for
  bool begun_ = false;              // the steps
  int next_chunk_ = 0;
  int chunks_left_ = 0;
  std::vector<GroupCall*> groups_done_;
  std::int64_t idle_since_ns_ = 0, idle_until_ns_ = 0;  // where steps are recorded; 0: not idle
};

}  // namespace lanecast
