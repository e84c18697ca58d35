// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/network_proxy.h"

#include <algorithm>
#include <utility>

namespace lanecast {

/// A library that moves a GPU's memory asks the thread for the GPU. To name it is a call of the driver, which may keep
/// the thread as that library's own may: so these are visits, too.
class NetworkProxy::InContext {
 public:
  InContext(const HostHalf& half, Router& router) : router_(router) {
    if (!half.device) return;
    const std::vector<Step>& steps = half.plan->plan().steps;
    const auto talking = std::ranges::find_if(steps, [](const Step& step) { return talks(step); });
    if (talking == steps.end()) return;
    transport_ = &router.to(talking->peer);
    const Router::Visit visit(router_, *transport_);
    current_.emplace(*half.device);
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

NetworkProxy::NetworkProxy(HostHalf half, Router& router) : half_(std::move(half)), router_(router) {
  chunks_left_ = half_.plan->shape().chunks;
}

void NetworkProxy::start(const std::byte* /*in*/, std::byte* /*out*/, std::uint32_t stamp) {
  const InContext in_context(half_, router_);
  stamp_ = stamp;
  for (int k = 0; k < std::min(kChunkChannels, half_.plan->shape().chunks); ++k) begin(flights_[k], k);
}

void NetworkProxy::begin(Flight& flight, std::int32_t chunk) {
  flight.chunk = {chunk, half_.plan->shape().chunks};
  flight.channel = &(*half_.channels)[half_.first_channel + static_cast<std::uint64_t>(chunk)];
  half_.plan->messages(flight.chunk, flight.messages);
  flight.posts.assign(flight.messages.size(), {});
  flight.unfinished = flight.messages.size();
  flight.sends = static_cast<std::size_t>(std::ranges::count_if(flight.messages, [this](auto& m) { return sends(m); }));
  flight.next_send = flight.next_come = 0;
  flight.said = 0;
  flight.go_on = 1;  // the chunk before has left the memory
  for (std::size_t k = 0; k < flight.messages.size(); ++k)
    if (!sends(flight.messages[k])) post(flight, k);
  let_go_on(flight);
}

void NetworkProxy::post(Flight& flight, std::size_t message) {
  const ChannelMessage& what = flight.messages[message];
  const Step& step = step_of(what);
  PostedMessage& post = flight.posts[message];
  Transport& transport = router_.to(step.peer);
  post.proxy = this;
  post.flight = &flight;
  post.span = {flight.channel->messages(what.on_device) + what.offset, what.bytes};
  post.memory = {&post.span, 1};
  post.bytes = what.bytes;
  post.peer = step.peer;
  post.stamp = stamp_;
  post.tag = call_tag(transport, what.number, stamp_);
  post.message = message;
  post.posted_ns = router_.log() ? trace_clock_ns() : 0;
  post.posted = true;
  const Router::Visit visit(router_, transport, step.peer);
  if (step.kind == StepKind::send)
    transport.post_send(post);
  else
    transport.post_recv(post);
}

void NetworkProxy::arrived(PostedMessage& post) {
  post.done = true;
  record(post);
  --post.flight->unfinished;
  let_go_on(*post.flight);
}

void NetworkProxy::record(const PostedMessage& post) const {
  CallLog* const log = router_.log();
  if (!log) return;
  const ChannelMessage& what = post.flight->messages[post.message];
  log->add({.kind = step_of(what).kind,
            .peer = post.peer,
            .step = what.step,
            .chunk = post.flight->chunk.index,
            .bytes = what.bytes,
            .begin_ns = post.posted_ns,
            .end_ns = trace_clock_ns(),
            .transport = router_.to(post.peer).name()});
}

void NetworkProxy::let_go_on(Flight& flight) const {
  for (; flight.next_come < flight.messages.size(); ++flight.next_come) {
    if (sends(flight.messages[flight.next_come])) continue;
    if (!flight.posts[flight.next_come].done) break;
    ++flight.go_on;
  }
  flight.channel->go_on(flight.channel->served.go_on + flight.go_on);
}

bool NetworkProxy::follow(Flight& flight) {
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

void NetworkProxy::end(Flight& flight) {
  flight.channel->served.said += flight.said;
  flight.channel->served.go_on += flight.go_on;
  const std::int32_t next = flight.chunk.index + kChunkChannels;
  flight.chunk = {0, 0};
  --chunks_left_;
  if (next < half_.plan->shape().chunks) begin(flight, next);
}

bool NetworkProxy::advance() {
  const InContext in_context(half_, router_);
  bool moved = router_.progress();
  for (Flight& flight : flights_) {
    if (!flight.flies()) continue;
    moved |= follow(flight);
    if (flight.landed()) end(flight);
  }
  if (!moved) half_.raise_fault();
  return moved;
}

bool NetworkProxy::on_hold() const {
  return std::ranges::all_of(flights_, [](const Flight& flight) { return !flight.flies() || flight.said == 0; });
}

std::string NetworkProxy::waiting_for(int peer) const {
  const Plan& plan = half_.plan->plan();
  const std::string call = ", of " + std::string(name_of(plan.collective.kind)) + " by " + plan.algorithm + " on a GPU";
  for (const Flight& flight : flights_)
    for (std::size_t k = 0; flight.flies() && k < flight.messages.size(); ++k) {
      const PostedMessage& post = flight.posts[k];
      if (!post.posted || post.done || (peer >= 0 && post.peer != peer)) continue;
      const std::string chunk =
          ", chunk " + std::to_string(flight.chunk.index) + " of " + std::to_string(flight.chunk.count);
      return describe(plan, flight.messages[k].step) + (flight.chunk.count > 1 ? chunk : "") + call;
    }
  return "this rank's and its group's work on GPUs" + call;
}

std::vector<int> NetworkProxy::awaited_peers() const {
  std::vector<int> peers;
  for (const Flight& flight : flights_)
    if (flight.flies())
      for (const PostedMessage& post : flight.posts)
        if (post.posted && !post.done) peers.push_back(post.peer);
  const Plan& plan = half_.plan->plan();
  for (const Group& group : plan.groups)
    std::ranges::copy_if(group.ranks, std::back_inserter(peers), [&](int rank) { return rank != plan.rank; });
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

bool NetworkProxy::awaits_message(int peer) const {
  return std::ranges::any_of(flights_, [peer](const Flight& flight) {
    return flight.flies() && std::ranges::any_of(flight.posts, [peer](const PostedMessage& post) {
             return post.posted && !post.done && post.peer == peer;
           });
  });
}

}  // namespace lanecast
