// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/between_hosts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "algorithms/algorithms.h"
#include "base/mix.h"
#include "runtime/bound/own_counts.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/gpu/between_hosts/chunk_enqueuer.h"
#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {
namespace {

/// The host, which looks at the peers and says whom it waits for, gives up first.
constexpr double kLongerThanHost = 2;

/// Of a message with own counts: small beside what is in flight, so that copies and the network overlap, and large
/// beside what starting a chunk costs.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

/// To time a copy by.
constexpr std::size_t kCopied = 4096;

}  // namespace

BetweenHosts::BetweenHosts(OpenGpu gpu, const Topology& topology, int rank, std::unique_ptr<HostGroups>&& peers,
                           WhereMessagesLie places)
    : gpu_(std::move(gpu)),
      topology_(topology),
      rank_(rank),
      launches_(gpu_.device, gpu_.kernels),
      faults_(gpu_.device),
      control_(gpu_.device, sizeof(gpu::Control)),
      begun_(gpu_.device),
      peers_(std::move(peers)),
      places_(std::move(places)) {}

Plan BetweenHosts::make(const Collective& collective, int rank, const std::string& algorithm) const {
  Plan plan = make_plan(collective, rank, topology_, algorithm);
  for (const Group& group : plan.groups) {
    const bool known = peers_ && std::ranges::count(topology_.partition(topology_.everyone(), topology_.levels() - 1),
                                                    group.ranks) > 0;
    if (!known)
      throw UsageError("algorithm '" + algorithm + "': on GPUs native moves what stays within a host of the topology " +
                       topology_.str() + ", as the last name of hierarchical(…,native), where each host has 2 to " +
                       std::to_string(gpu::kMostRanks) + " ranks");
  }
  return plan;
}

std::shared_ptr<DevicePlan> BetweenHosts::stage(Plan plan, Shape shape) {
  open_channels();
  return std::make_shared<DevicePlan>(std::move(plan), std::move(shape), places_.on_device);
}

std::shared_ptr<const DevicePlan> BetweenHosts::bind(const Call& call, bool in_place,
                                                     const std::function<Choice()>& choose) {
  const Collective collective = collective_of(call, topology_.size(), in_place);
  // These differ from call to call, and would push the plans out that are used again.
  if (call.own_counts()) return bind_own_counts(call, collective, choose().algorithm);
  if (const auto* const found = bound_.find(collective, call, call.algorithm)) return *found;
  const Choice choice = choose();
  Shape shape = shape_of(call);
  shape.chunks = choice.chunks;
  shape.chunks = chunks_that_fit(shape, topology_.size(), [&](int r) { return make(collective, r, choice.algorithm); });
  return bound_.make(collective, call, call.algorithm,
                     stage(make(collective, rank_, choice.algorithm), std::move(shape)));
}

std::shared_ptr<const DevicePlan> BetweenHosts::bind_own_counts(const Call& call, const Collective& collective,
                                                                const std::string& algorithm) {
  require_own_counts_suffice(call, topology_, algorithm);
  Plan plan = make(collective, rank_, algorithm);
  require_few_sources(plan);
  Shape shape = shape_of(call);
  // A rank with fewer chunks than another is one whose last chunks are empty, so what is proven of chunks holds.
  // A message to each peer and one from it lie in a channel at a time, on every rank as on this one.
  const std::size_t messages = 2 * std::max<std::size_t>(1, static_cast<std::size_t>(topology_.size()) - 1);
  const std::size_t bytes = std::min(kPieceBytes, ChunkChannel::kMessageBytes / messages / aligned(1) * aligned(1));
  shape.piece = bytes / size_of(call.dtype);
  if (shape.piece == 0)
    throw UsageError("send_counts, recv_counts: " + std::to_string(topology_.size()) +
                     " ranks have too many messages at a time for GPUs");
  std::size_t most = 1;
  for (const auto& counts : {call.send_counts, call.recv_counts})
    for (const std::size_t count : counts) most = std::max(most, count);
  shape.chunks = static_cast<int>(pieces_of(most, shape.piece));
  return stage(std::move(plan), std::move(shape));
}

void BetweenHosts::open_channels() {
  if (channels_) return;
  channels_ = std::make_shared<ChunkChannels>(gpu_.device, places_);
}

void BetweenHosts::set_timeout(double timeout_s) {
  gpu_.timeout_s = timeout_s;
  if (peers_) peers_->set_timeout(timeout_s);
}

std::uint16_t BetweenHosts::signature(const DevicePlan& plan) { return folded(plan.signature().hash); }

CallBetweenHosts BetweenHosts::begin(std::shared_ptr<const DevicePlan> plan, const void* in, void* out) {
  const auto chunks = static_cast<std::uint64_t>(plan->shape().chunks);
  return {std::move(plan), in, out, std::exchange(next_channel_, next_channel_ + chunks)};
}

NetworkProxy::HostHalf BetweenHosts::host_half(const CallBetweenHosts& call) const {
  return {call.plan, channels_, call.first_channel, places_.needs_context ? gpu_.device : nullptr, {}};
}

gpu::Handshake BetweenHosts::handshake() const {
  gpu::Handshake handshake{};
  handshake.rank = static_cast<gpu::u32>(rank_);
  handshake.timeout_ns = peers::patience_ns(kLongerThanHost * gpu_.timeout_s);
  handshake.control = control_.address();
  handshake.fault = faults_.device();
  if (peers_)
    for (const gpu::Address control : peers_->controls()) handshake.group_control[handshake.groups++] = control;
  return handshake;
}

double BetweenHosts::driver_call_s() {
  constexpr int kBatches = 6, kPairs = 8;  // a few of them are fewer than a stream has room for
  const gpu::Device& device = *gpu_.device;
  const gpu::BesideCaptures beside(device.driver());  // another thread's; a wait for a stream would spoil them
  const ChunkChannel& channel = (*channels_)[0];
  const gpu::Handshake nothing_to_say = handshake();
  double least_s = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto begun = std::chrono::steady_clock::now();
    for (int k = 0; k < kPairs; ++k) {
      launches_.shake_hands(nothing_to_say, channel.stream());
      device.check(device.driver().copy(channel.scratch(), channel.scratch() + kCopied, kCopied, channel.stream()),
                   "cuMemcpyAsync");
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    least_s = std::min(least_s, took.count() / (2 * kPairs));
    device.check(device.driver().cuStreamSynchronize(channel.stream()), "cuStreamSynchronize");
  }
  return least_s;
}

void BetweenHosts::enqueue(const CallBetweenHosts& call, gpu::Stream stream) {
  const gpu::Device& device = *gpu_.device;
  const gpu::Driver& driver = device.driver();
  const DevicePlan& plan = *call.plan;
  gpu::Handshake handshake = this->handshake();
  handshake.signature = signature(plan);

  device.check(driver.cuEventRecord(begun_.get(), stream), "cuEventRecord");
  ChunkEnqueuer steps(plan, {launches_, peers_.get(), handshake, gpu_kind(gpu_.kind).between_hosts.reducer_blocks});
  const int chunks = plan.shape().chunks;
  const auto channel_of = [&](int chunk) -> ChunkChannel& {
    return (*channels_)[call.first_channel + static_cast<std::uint64_t>(chunk)];
  };
  for (int c = 0; c < chunks; ++c) {
    ChunkChannel& channel = channel_of(c);
    if (c < kChunkChannels)
      device.check(driver.cuStreamWaitEvent(channel.stream(), begun_.get(), 0), "cuStreamWaitEvent");
    // Spans serve reading and writing; no plan writes its input, which verify() proves.
    steps.enqueue({c, chunks}, channel, static_cast<std::byte*>(const_cast<void*>(call.in)),
                  static_cast<std::byte*>(call.out));
  }
  for (int c = 0; c < std::min(chunks, kChunkChannels); ++c) {
    const ChunkChannel& channel = channel_of(c);
    device.check(driver.cuEventRecord(channel.ended(), channel.stream()), "cuEventRecord");
    device.check(driver.cuStreamWaitEvent(stream, channel.ended(), 0), "cuStreamWaitEvent");
  }
}

std::optional<peers::PeerFault> BetweenHosts::fault() const {
  if (peers_)
    if (auto fault = peers_->fault()) return fault;
  return faults_.met();
}

void BetweenHosts::poison() {
  faults_.poison();
  if (peers_) peers_->poison();
}

}  // namespace lanecast
