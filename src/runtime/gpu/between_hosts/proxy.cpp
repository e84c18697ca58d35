// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/proxy.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/gpu/between_hosts/in_context.h"

namespace lanecast {
namespace {

/// Among the messages of a pair, of counts that each rank knows for itself.
constexpr std::uint64_t kNoteNumber = 0;

}  // namespace

Proxy::Proxy(CallBetweenHosts call, ProxySurroundings around, Router& router)
    : call_(std::move(call)), around_(std::move(around)), router_(router) {
  const auto& messages = call_.program->program().carried;
  const auto channels = static_cast<std::size_t>(slicing().channels);
  flows_.resize(messages.size() * channels);
  for (std::size_t k = 0; k < flows_.size(); ++k) {
    flows_[k].number = k / channels;
    flows_[k].channel = static_cast<std::uint32_t>(k % channels);
    flows_[k].slots.resize(messages[k / channels].memory.slots);
  }
  for (const gpu::Instruction& what : call_.program->program().puts)
    for (std::size_t k = 0; what.carried != 0 && k < channels; ++k)
      flows_[(what.carried - 1) * channels + k].delay = what.delay;
  const Program& program = call_.program->program();
  for (const auto& queue : {std::span(program.puts), std::span(program.takes)})
    for (const gpu::Instruction& what : queue)
      if (const int peer = program.peer_of(what);
          talks(what) && what.carried == 0 && std::ranges::find(neighbours_, peer) == neighbours_.end())
        neighbours_.push_back(peer);
  if (!program.counted) return;
  if (program.counted->by_pairs) {
    std::vector<int> peers = neighbours_;
    for (const Carried& message : messages)
      if (std::ranges::find(peers, message.peer) == peers.end()) peers.push_back(message.peer);
    notes_ = std::make_unique<CountNotes>(router_, call_.program->plan().rank, std::move(peers));
  }
  if (!call_.counts->on_device()) count();
}

void Proxy::count() {
  std::vector<std::size_t> bytes = call_.counts->by_row();
  for (std::size_t& each : bytes) each *= size_of(call_.program->shape().dtype);
  counted_ = std::make_unique<const CountedLaunch>(with_counts(call_.program->program(), bytes));
}

void Proxy::start(const std::byte* /*in*/, std::byte* /*out*/, std::uint32_t stamp) {
  stamp_ = stamp;
  launch_ = around_.launches->turn_to_next();
  awaits_counts_ = call_.counts && call_.counts->on_device();
  unfinished_ = flows_.size();
  if (!awaits_counts_) begin_flows();
}

void Proxy::begin_flows() {
  const InContext in_context(router_, context(), a_peer());
  if (notes_) {
    const CountedParts& parts = call_.program->program().counted_parts();
    const std::vector<std::size_t> counts = call_.counts->by_row();
    const std::span all(counts);
    const auto tag = around_.launches->is_followed() ? launched_tag : call_tag;
    notes_->begin(
        own_counts_of(call_.program->plan().collective, all.first(parts.inputs), all.subspan(parts.inputs)),
        [&](const Transport& transport) { return tag(transport, kNoteNumber, stamp_); }, stamp_);
  }
  for (CarriedFlow& flow : flows_) {
    flow.posted = flow.through = flow.taken = flow.lane = 0;
    if (chunks(flow) == 0) --unfinished_;
    tell(flow);  // the slots are free: all calls before have finished
    if (!carried(flow).sends) follow_receive(flow);
  }
}

bool Proxy::finished() const {
  if (awaits_counts_ || unfinished_ != 0 || (notes_ && !notes_->done())) return false;
  const bool may_be_read = !neighbours_.empty() || call_.counts;
  return !may_be_read || call_.memory->has_ended(launch_, slicing().lanes);
}

void Proxy::foretell(std::uint32_t launch) const {
  for (std::size_t k = 0; k < flows_.size(); ++k) call_.memory->tell(k, std::uint64_t{launch} << 32);
}

bool Proxy::all_say(CarriedFlow& flow, std::uint32_t chunk) {
  const auto lanes = static_cast<std::uint32_t>(slicing().lanes_of_channel());
  const std::uint64_t with_share = chunk_of(flow, chunk).lanes;
  // Of a message those of all lanes lie together, so of a flow those of its channel's.
  const std::uint64_t* const says = call_.memory->says() + (&flow - flows_.data()) * lanes;
  for (; flow.lane < lanes; ++flow.lane) {
    if ((with_share >> flow.lane & 1) == 0) continue;
    // Acquire: what the lane has put is seen by who sends it, and what it has taken is read.
    const std::uint64_t word = __atomic_load_n(says + flow.lane, __ATOMIC_ACQUIRE);
    if (word >> 32 != launch_ || static_cast<std::uint32_t>(word) <= chunk) return false;
  }
  flow.lane = 0;
  return true;
}

bool Proxy::has_room(const CarriedFlow& flow) const {
  constexpr std::size_t kLeast = 2;  // one that begins while the one before ends
  return sending_.size() < kLeast || sending_bytes_ < around_.window ||
         flow.posted + flow.delay < *std::ranges::min_element(sending_) ||
         !router_.to(carried(flow).peer).traits().shares_wires;
}

bool Proxy::send_ready() {
  for (bool moved = false;; moved = true) {
    CarriedFlow* first = nullptr;
    for (CarriedFlow& flow : flows_) {
      const bool is_earlier = first == nullptr || flow.posted + flow.delay < first->posted + first->delay;
      if (is_earlier && carried(flow).sends && may_send(flow)) first = &flow;
    }
    if (!first) return moved;
    post(*first);
  }
}

bool Proxy::follow_receive(CarriedFlow& flow) {
  bool moved = false;
  if (!may_receive_from(carried(flow).peer)) return moved;
  for (; flow.taken < flow.through && all_say(flow, flow.taken); moved = true)
    if (++flow.taken == chunks(flow)) --unfinished_;
  for (; flow.posted < chunks(flow) && flow.posted - flow.taken < flow.slots.size(); moved = true) post(flow);
  return moved;
}

std::uint64_t Proxy::tag_number(const CarriedFlow& flow, std::uint32_t chunk) const {
  const std::uint64_t channels = static_cast<std::uint64_t>(slicing().channels);
  // Only the two ranks know how many chunks there are, but it is the only message of its pair.
  if (notes_) return kNoteNumber + 1 + chunk * channels + flow.channel;
  const Carried& message = carried(flow);
  return (message.ordinal * std::uint64_t{message.memory.chunks} + chunk) * channels + flow.channel;
}

void Proxy::post(CarriedFlow& flow) {
  const Carried& message = carried(flow);
  const std::uint32_t chunk = flow.posted++;
  const std::size_t slot = chunk % flow.slots.size();
  PostedChunk& post = flow.slots[slot];
  post = {};
  const std::size_t bytes = chunk_of(flow, chunk).bytes;
  if (bytes == 0) {  // the other side knows it as well
    post.done = true;
    return pass(flow);
  }
  const std::size_t share = slot * static_cast<std::size_t>(slicing().lanes) +
                            flow.channel * static_cast<std::size_t>(slicing().lanes_of_channel());
  Transport& transport = router_.to(message.peer);
  post.proxy = this;
  post.flow = &flow;
  post.chunk = chunk;
  post.span = {
      call_.memory->slots(message.memory.on_host != 0) + message.memory.place + share * message.memory.lane_bytes,
      bytes};
  post.memory = {&post.span, 1};
  post.bytes = bytes;
  post.peer = message.peer;
  post.stamp = stamp_;
  const auto tag = around_.launches->is_followed() ? launched_tag : call_tag;
  post.tag = tag(transport, tag_number(flow, chunk), stamp_);
  post.under_way = true;
  post.posted_ns = router_.log() ? trace_clock_ns() : 0;
  const Router::Visit visit(router_, transport, message.peer);
  if (message.sends) {
    sending_.push_back(chunk + flow.delay);
    sending_bytes_ += bytes;
    transport.post_send(post);
  } else {
    transport.post_recv(post);
  }
}

void Proxy::arrived(PostedChunk& chunk) {
  chunk.under_way = false;
  chunk.done = true;
  if (carried(*chunk.flow).sends) {
    sending_.erase(std::ranges::find(sending_, chunk.chunk + chunk.flow->delay));
    sending_bytes_ -= chunk.bytes;
  }
  record(chunk);
  pass(*chunk.flow);
}

void Proxy::pass(CarriedFlow& flow) {
  const std::uint32_t before = flow.through;
  while (flow.through < flow.posted && flow.slots[flow.through % flow.slots.size()].done) ++flow.through;
  if (flow.through == before) return;
  tell(flow);
  if (carried(flow).sends && flow.through == chunks(flow)) --unfinished_;
}

void Proxy::tell(const CarriedFlow& flow) const {
  call_.memory->tell(static_cast<std::size_t>(&flow - flows_.data()), std::uint64_t{launch_} << 32 | flow.through);
}

void Proxy::record(const PostedChunk& chunk) const {
  CallLog* const log = router_.log();
  if (!log) return;
  const Carried& message = carried(*chunk.flow);
  log->add({.kind = call_.program->plan().steps[message.step].kind,
            .peer = chunk.peer,
            .step = message.step,
            .chunk = static_cast<std::int32_t>(chunk.chunk),
            .bytes = chunk.bytes,
            .begin_ns = chunk.posted_ns,
            .end_ns = trace_clock_ns(),
            .transport = router_.to(chunk.peer).name()});
}

bool Proxy::advance() {
  if (awaits_counts_) {
    const bool has_begun = around_.launches->has_begun(launch_);
    around_.raise_fault();  // of counts that nobody can follow, or of what the launch comes after
    if (!has_begun) return router_.progress();
    count();
    awaits_counts_ = false;
    begin_flows();
  }
  const InContext in_context(router_, context(), a_peer());
  // Before a message of another length is found in the midst of progress, which another proxy may have made.
  if (notes_) notes_->compare(call_.signature().text);
  bool moved = router_.progress();
  if (notes_) notes_->compare(call_.signature().text);
  for (CarriedFlow& flow : flows_)
    if (!carried(flow).sends) moved |= follow_receive(flow);
  moved |= send_ready();
  if (!moved) around_.raise_fault();
  return moved;
}

std::string Proxy::waiting_for(int peer) const {
  const Plan& plan = call_.program->plan();
  const std::string call = ", of " + std::string(name_of(plan.collective.kind)) + " by " + plan.algorithm + " on a GPU";
  for (const CarriedFlow& flow : flows_)
    for (const PostedChunk& chunk : flow.slots) {
      if (!chunk.under_way || (peer >= 0 && chunk.peer != peer)) continue;
      const std::string which = ", chunk " + std::to_string(chunk.chunk) + " of " + std::to_string(chunks(flow));
      return describe(plan, carried(flow).step) + (chunks(flow) > 1 ? which : "") + call;
    }
  for (const int silent : notes_ && !awaits_counts_ ? notes_->silent() : std::vector<int>{})
    if (peer < 0 || silent == peer) return "what rank " + std::to_string(silent) + " sends and expects" + call;
  return "this rank's and its host's work on GPUs" + call;
}

std::vector<int> Proxy::awaited_peers() const {
  std::vector<int> peers = neighbours_;
  for (const CarriedFlow& flow : flows_)
    for (const PostedChunk& chunk : flow.slots)
      if (chunk.under_way) peers.push_back(chunk.peer);
  if (notes_ && !awaits_counts_)
    for (const int silent : notes_->silent()) peers.push_back(silent);
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::erase(peers, call_.program->plan().rank);
  return peers;
}

bool Proxy::awaits_message(int peer) const {
  if (notes_ && !awaits_counts_ && !notes_->heard_from(peer) && std::ranges::count(notes_->silent(), peer) != 0)
    return true;
  return std::ranges::any_of(flows_, [peer](const CarriedFlow& flow) {
    return std::ranges::any_of(flow.slots,
                               [peer](const PostedChunk& chunk) { return chunk.under_way && chunk.peer == peer; });
  });
}

}  // namespace lanecast
