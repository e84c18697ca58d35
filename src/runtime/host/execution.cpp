// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/execution.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/bound/shape_of_call.h"

namespace lanecast {

Execution::Execution(std::shared_ptr<PreparedPlan> prepared, Shape shape, Router& router, CallMemory& memory,
                     const ExecutorOptions& options)
    : prepared_(std::move(prepared)),
      shape_(std::move(shape)),
      layout_(prepared_->plan, shape_),
      signature_(signature_of(prepared_->plan, shape_)),
      record_(record_of(prepared_->plan, shape_)),
      router_(router),
      memory_(memory) {
  const CallContext context{*prepared_,   shape_,      layout_, router_,       memory_,
                            group_turns_, send_turns_, stamp_,  options.window};
  if (router_.any(&Traits::announces) && !prepared_->exchanges) prepared_->exchanges.emplace(prepared_->plan);
  for (int k = 0; k < std::min(shape_.chunks, options.chunks_in_flight); ++k)
    runs_.push_back(std::make_unique<ChunkRun>(context));
  const Plan& plan = prepared_->plan;
  std::set<std::vector<int>> sets;
  for (const Group& group : plan.groups) sets.insert(group.ranks);
  const std::vector<std::vector<int>> in_order(sets.begin(), sets.end());
  for (std::size_t k = 0; k < in_order.size(); ++k) roll_calls_.emplace_back(router_, in_order, k, plan.rank);
}

void Execution::start(const std::byte* in, std::byte* out, std::uint32_t stamp) {
  in_ = const_cast<std::byte*>(in);  // spans serve reading and writing; no plan writes its input, which verify() proves
  out_ = out;
  stamp_ = stamp;
  idle_since_ns_ = 0;
  next_chunk_ = 0;
  chunks_left_ = shape_.chunks;
  begun_ = false;
  opening_ = nullptr;
  for (RollCall& roll : roll_calls_)
    if (stamp_ != 0 || opens_group_of(roll.members())) roll.begin(stamp_);
  if (all_have_come() && has_groups()) begin_steps();
}

bool Execution::all_have_come() const { return std::ranges::all_of(roll_calls_, &RollCall::finished); }

bool Execution::opens_group_of(const std::vector<int>& members) const {
  if (has_groups()) return false;
  const Plan& plan = prepared_->plan;
  return std::ranges::any_of(plan.steps, [&](const Step& step) {
    if (step.kind != StepKind::group || plan.groups[step.group].ranks != members) return false;
    Transport& transport = *router_.library_for(plan.groups[step.group].kind, shape_.dtype, shape_.op);
    return !transport.groups()->has(members, step.ordinal);
  });
}

bool Execution::open_groups() {
  const Plan& plan = prepared_->plan;
  std::size_t number = 0;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::group || number++ < prepared_->handles.size()) continue;
    const Group& group = plan.groups[step.group];
    Transport& transport = *router_.library_for(group.kind, shape_.dtype, shape_.op);
    const std::optional<int> handle = transport.groups()->open(group.ranks, step.ordinal);
    opening_ = handle ? nullptr : &group;
    if (!handle) return false;
    prepared_->handles.push_back(*handle);
  }
  return true;
}

void Execution::begin_steps() {
  begun_ = true;
  const std::int32_t first = shape_.chunk(0).index;
  group_turns_.begin(prepared_->plan.groups.size(), first);
  send_turns_.begin(prepared_->plan.steps.size(), first);
  // Here, since a call before may have been under way when this one was prepared.
  scratch_ = memory_.scratch(scratch_bytes());
  for (std::size_t run = 0; run < runs_.size(); ++run) begin_next(run);
  refill();
}

void Execution::begin_next(std::size_t run) {
  std::byte* const scratch = scratch_ + run * layout_.scratch_bytes();
  runs_[run]->begin(shape_.chunk(next_chunk_++), {in_, out_, scratch});
  runs_[run]->start_ready();
}

void Execution::refill() {
  for (std::size_t run = 0; run < runs_.size(); ++run)
    while (!runs_[run]->retired() && runs_[run]->finished()) {
      --chunks_left_;
      if (next_chunk_ < shape_.chunks)
        begin_next(run);
      else
        runs_[run]->retire();
    }
}

bool Execution::advance() {
  const bool moved = router_.progress();
  const bool went_on = begun_ ? advance_steps(moved) : advance_roll_call(moved);
  if (router_.log()) record_waiting(went_on);
  return went_on;
}

bool Execution::advance_roll_call(bool moved) {
  if (!all_have_come()) return moved;
  if (!has_groups() && !open_groups()) return moved;
  begin_steps();
  return true;
}

bool Execution::advance_steps(bool moved) {
  groups_done_.clear();
  for (std::size_t t = 0; t < router_.count(); ++t) {
    Groups* const groups = router_[t].groups();
    if (!groups) continue;
    const Router::Visit visit(router_, router_[t]);
    groups->progress(groups_done_);
  }
  for (GroupCall* group : groups_done_) {
    auto& mine = *static_cast<ChunkRun::StepGroup*>(group);
    mine.run->arrived(mine);
    mine.run->start_ready();
  }
  moved |= !groups_done_.empty();
  for (auto& run : runs_) moved |= run->copy_some(moved);
  refill();  // what has ended a chunk may have come while another call moved the messages of all
  return moved;
}

void Execution::record_waiting(bool moved) {
  if (!moved) {
    idle_until_ns_ = trace_clock_ns();
    if (idle_since_ns_ == 0) idle_since_ns_ = idle_until_ns_;
  } else if (const std::int64_t since_ns = std::exchange(idle_since_ns_, 0);
             since_ns != 0 && idle_until_ns_ > since_ns) {
    router_.log()->add({.begin_ns = since_ns, .end_ns = idle_until_ns_, .transport = {}});
  }
}

std::string Execution::waiting_for(int peer) const {
  std::string call = ", of ";
  call.append(name_of(prepared_->plan.collective.kind)).append(" by ").append(prepared_->plan.algorithm);
  if (!begun_)
    return std::string(opening_ ? "the making of a library's group" : "the roll call") +
           " before a library's own collective" + call;
  std::string text;
  for (const auto& run : runs_)
    for (std::uint32_t step : run->waiting()) {
      if (peer >= 0 && !awaits(step, peer)) continue;
      if (!text.empty()) return text.append("; and more").append(call);  // the oldest says most
      text = describe(prepared_->plan, step);
      if (run->chunk().count > 1)
        text += ", chunk " + std::to_string(run->chunk().index) + " of " + std::to_string(run->chunk().count);
    }
  return text + call;
}

bool Execution::awaits(std::uint32_t index, int peer) const {
  const Step& step = prepared_->plan.steps[index];
  if (step.kind != StepKind::group) return step.peer == peer;
  return std::ranges::count(prepared_->plan.groups[step.group].ranks, peer) > 0;
}

bool Execution::awaits_message(int peer) const {
  if (!begun_) return opening_ == nullptr;  // of the roll call
  return std::ranges::any_of(runs_, [&](const auto& run) {
    return std::ranges::any_of(run->waiting(),
                               [&](std::uint32_t step) { return prepared_->plan.steps[step].peer == peer; });
  });
}

std::vector<int> Execution::awaited_peers() const {
  std::vector<int> peers;
  for (const RollCall& roll : roll_calls_) std::ranges::copy(roll.awaited_peers(), std::back_inserter(peers));
  if (opening_)
    for (const int rank : opening_->ranks)
      if (rank != prepared_->plan.rank) peers.push_back(rank);
  for (const auto& run : runs_)
    for (std::uint32_t i : run->waiting()) {
      const Step& step = prepared_->plan.steps[i];
      if (step.peer >= 0) peers.push_back(step.peer);
      if (step.kind == StepKind::group)
        for (int rank : prepared_->plan.groups[step.group].ranks)
          if (rank != prepared_->plan.rank) peers.push_back(rank);
    }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

bool Execution::calls_roll_of(int peer) const {
  return std::ranges::any_of(roll_calls_, [&](const RollCall& roll) {
    return !roll.finished() && std::ranges::count(roll.members(), peer) > 0;
  });
}

Needs Execution::needs(int peer) const {
  if (calls_roll_of(peer)) return Needs::yes;
  const Plan& plan = prepared_->plan;
  for (const auto& run : runs_)
    for (const std::uint32_t i : run->waiting())
      if (plan.steps[i].peer == peer && plan.steps[i].kind != StepKind::send) return Needs::yes;
  if (plan.collective.composition) return Needs::perhaps;
  const PartRange outputs = plan.collective.outputs(plan.rank);
  for (std::int32_t k = 0; k < outputs.count; ++k)
    if (plan.collective.contributors(outputs[k]).has(peer) && layout_.elements({outputs[k]}, {0, 1}) > 0)
      return Needs::yes;
  return Needs::perhaps;
}

}  // namespace lanecast
