// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/network_proxy.h"

#include <algorithm>
#include <utility>

namespace lanecast {

/// A library that moves a GPU's memory asks the thread for the GPU. To name it is a call of the driver, which may keep
/// the thread as that library's own may: so these are visits, too.
class StagedRun::InContext {
 public:
  InContext(const Parts& parts, Router& router) : router_(router) {
    if (!parts.device) return;
    const std::vector<Step>& steps = parts.plan->plan().steps;
    const auto talking = std::ranges::find_if(steps, [](const Step& step) { return talks(step); });
    if (talking == steps.end()) return;
    transport_ = &router.to(talking->peer);
    const Router::Visit visit(router_, *transport_);
    current_.emplace(*parts.device);
  }
  ~InContext() {
    if (!transport_) return;
    const Router::Visit visit(router_, *transport_);
    current_.reset();
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  Router& router_;
  const Transport* transport_ = nullptr;
  std::optional<gpu::Device::Current> current_;
};

StagedRun::StagedRun(Parts parts, Router& router) : parts_(std::move(parts)), router_(router) {
  chunks_left_ = parts_.plan->shape().chunks;
}

void StagedRun::start(const std::byte* /*in*/, std::byte* /*out*/, std::uint32_t stamp) {
  const InContext in_context(parts_, router_);
  stamp_ = stamp;
  for (int k = 0; k < std::min(kHostChannels, parts_.plan->shape().chunks); ++k) begin(flights_[k], k);
}

void StagedRun::begin(Flight& flight, std::int32_t chunk) {
  flight.chunk = {chunk, parts_.plan->shape().chunks};
  flight.channel = &(*parts_.channels)[parts_.first_channel + static_cast<std::uint64_t>(chunk)];
  parts_.plan->messages(flight.chunk, flight.messages);
  flight.parts.assign(flight.messages.size(), {});
  flight.unfinished = flight.messages.size();
  flight.sends = static_cast<std::size_t>(std::ranges::count_if(flight.messages, [this](auto& m) { return sends(m); }));
  flight.next_send = flight.next_come = 0;
  flight.said = 0;
  flight.go_on = 1;  // the chunk before has left the memory
  for (std::size_t k = 0; k < flight.messages.size(); ++k)
    if (!sends(flight.messages[k])) post(flight, k);
  let_go_on(flight);
}

void StagedRun::post(Flight& flight, std::size_t message) {
  const StagedMessage& what = flight.messages[message];
  const Step& step = step_of(what);
  Part& part = flight.parts[message];
  Transport& transport = router_.to(step.peer);
  part.run = this;
  part.flight = &flight;
  part.span = {flight.channel->messages(what.on_device) + what.offset, what.bytes};
  part.memory = {&part.span, 1};
  part.bytes = what.bytes;
  part.peer = step.peer;
  part.stamp = stamp_;
  part.tag = call_tag(transport, what.number, stamp_);
  part.message = message;
  part.posted_ns = router_.log() ? trace_clock_ns() : 0;
  part.posted = true;
  const Router::Visit visit(router_, transport, step.peer);
  if (step.kind == StepKind::send)
    transport.post_send(part);
  else
    transport.post_recv(part);
}

void StagedRun::arrived(Part& part) {
  part.done = true;
  record(part);
  --part.flight->unfinished;
  let_go_on(*part.flight);
}

void StagedRun::record(const Part& part) const {
  CallLog* const log = router_.log();
  if (!log) return;
  const StagedMessage& what = part.flight->messages[part.message];
  log->add({.kind = step_of(what).kind,
            .peer = part.peer,
            .step = what.step,
            .chunk = part.flight->chunk.index,
            .bytes = what.bytes,
            .begin_ns = part.posted_ns,
            .end_ns = trace_clock_ns(),
            .transport = router_.to(part.peer).name()});
}

void StagedRun::let_go_on(Flight& flight) const {
  for (; flight.next_come < flight.messages.size(); ++flight.next_come) {
    if (sends(flight.messages[flight.next_come])) continue;
    if (!flight.parts[flight.next_come].done) break;
    ++flight.go_on;
  }
  flight.channel->go_on(flight.channel->served.go_on + flight.go_on);
}

bool StagedRun::follow(Flight& flight) {
  // The device may have begun the channel's next chunk already.
  const std::uint64_t said = std::min(flight.channel->said() - flight.channel->served.said, flight.says());
  if (said == flight.said) return false;
  // The first says that the chunk has begun, and the last that it has ended.
  for (; flight.said < said; ++flight.said) {
    if (flight.said == 0 || flight.said > flight.sends) continue;
    while (!sends(flight.messages[flight.next_send])) ++flight.next_send;
    post(flight, flight.next_send++);
  }
  return true;
}

void StagedRun::end(Flight& flight) {
  flight.channel->served.said += flight.said;
  flight.channel->served.go_on += flight.go_on;
  const std::int32_t next = flight.chunk.index + kHostChannels;
  flight.chunk = {0, 0};
  --chunks_left_;
  if (next < parts_.plan->shape().chunks) begin(flight, next);
}

bool StagedRun::advance() {
  const InContext in_context(parts_, router_);
  bool moved = router_.progress();
  for (Flight& flight : flights_) {
    if (!flight.flies()) continue;
    moved |= follow(flight);
    if (flight.landed()) end(flight);
  }
  if (!moved) parts_.raise_fault();
  return moved;
}

bool StagedRun::on_hold() const {
  return std::ranges::all_of(flights_, [](const Flight& flight) { return !flight.flies() || flight.said == 0; });
}

std::string StagedRun::waiting_for(int peer) const {
  const Plan& plan = parts_.plan->plan();
  const std::string call = ", of " + std::string(name_of(plan.collective.kind)) + " by " + plan.algorithm + " on a GPU";
  for (const Flight& flight : flights_)
    for (std::size_t k = 0; flight.flies() && k < flight.messages.size(); ++k) {
      const Part& part = flight.parts[k];
      if (!part.posted || part.done || (peer >= 0 && part.peer != peer)) continue;
      const std::string chunk =
          ", chunk " + std::to_string(flight.chunk.index) + " of " + std::to_string(flight.chunk.count);
      return describe(plan, flight.messages[k].step) + (flight.chunk.count > 1 ? chunk : "") + call;
    }
  return "this rank's and its group's work on GPUs" + call;
}

std::vector<int> StagedRun::awaited_peers() const {
  std::vector<int> peers;
  for (const Flight& flight : flights_)
    if (flight.flies())
      for (const Part& part : flight.parts)
        if (part.posted && !part.done) peers.push_back(part.peer);
  const Plan& plan = parts_.plan->plan();
  for (const Group& group : plan.groups)
    std::ranges::copy_if(group.ranks, std::back_inserter(peers), [&](int rank) { return rank != plan.rank; });
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

bool StagedRun::awaits_message(int peer) const {
  return std::ranges::any_of(flights_, [peer](const Flight& flight) {
    return flight.flies() && std::ranges::any_of(flight.parts, [peer](const Part& part) {
             return part.posted && !part.done && part.peer == peer;
           });
  });
}

}  // namespace lanecast
