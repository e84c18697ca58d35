// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/between_hosts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <exception>
#include <utility>

#include "algorithms/algorithms.h"
#include "base/agreed.h"
#include "device/gpu/stream.h"
#include "runtime/agree/link_times.h"
#include "runtime/bound/own_counts.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {
namespace {

/// The host, which looks at the peers and says whom it waits for, gives up first.
constexpr double kLongerThanHost = 2;

/// Of a lane: a vector of fewer bytes takes fewer lanes.
constexpr std::size_t kLaneBytes = std::size_t{16} << 10;
/// Channels work beside each other: what one waits for, a message of another host, leaves the network to the others.
/// Each has messages of its own. Four took up to a fifth longer than two, from 4 to 64 MiB over 50 GB/s (four H200s).
constexpr int kChannels = 2;
constexpr std::size_t kChannelBytes = std::size_t{512} << 10;  // of a vector's chunk
/// What a lane moves for a network, so that the network is what takes the time. A lane moves 7 GB/s between the GPUs of
/// a host, or 3.75 that it adds (two and four H200s), and what a host does before and after messages, on two GPUs three
/// times their bytes, should be short beside them.
constexpr double kLaneBytesPerS = 1.5e9, kAddingLaneBytesPerS = 0.75e9;
constexpr int kFewLanes = 8;
/// A message is announced, called for and put, where its transport does so; two are under way at any time.
constexpr double kLatenciesUnderWay = 4;
constexpr int kMostNetworkLanes = 32, kMostAddingLanes = 64;

/// Of a vector, in a chunk: a chunk's messages are as long at most, and lie in memory several at a time.
constexpr std::size_t kMostChunkBytes = std::size_t{32} << 20;

constexpr std::size_t kWordBytes = 65536;  // at first; programs that need more words get them

/// Rings hold so many of the longest message at least: one is put while another is taken, and both ends drift apart.
constexpr std::size_t kMessagesInRing = 4;

}  // namespace

BetweenHosts::BetweenHosts(NetworkSurroundings around, const Bootstrap& all,
                           const std::function<Bootstrap(const Ranks&)>& among, WhereMessagesLie where)
    : on_(std::move(around)),
      rank_(all.rank),
      where_(std::move(where)),
      own_(agreed(all,
                  [&] {
                    return std::make_unique<OwnPart>(OwnPart{peers::Launches(on_.gpu.device, on_.gpu.kernels),
                                                             peers::Faults(on_.gpu.device),
                                                             gpu::DeviceMemory(on_.gpu.device, sizeof(gpu::Control))});
                  })),
      peers_(agreed(all,
                    [&] {
                      const Ranks here = on_host_of(rank_);
                      Bootstrap members = among(here);
                      members.known_as = here;
                      return std::make_unique<peers::ProgramPeers>(
                          on_.gpu.device, members,
                          peers::OwnKernels{own_->launches, own_->faults, own_->control.address()});
                    })),
      messages_(agreed(all,
                       [&] {
                         const Ranks here = on_host_of(rank_);
                         Bootstrap members = among(here);
                         members.known_as = here;
                         return std::make_unique<MessagesBetweenHosts>(
                             MessagesBetweenHosts::MessageSurroundings{
                                 on_.gpu, where_, here, rank_, static_cast<int>(on_.hosts.size()), on_.enqueued.order},
                             members, peers::OwnKernels{own_->launches, own_->faults, own_->control.address()});
                       })),
      most_lanes_(on_.gpu.max_ctas ? std::min(on_.gpu.max_ctas, kFewLanes) : kFewLanes),
      most_adding_(most_lanes_),
      counts_(on_.gpu.device) {
  set_timeout(on_.gpu.timeout_s);
  const std::size_t on_device = where_.any() ? ProbeMemory::kBytes : 0;
  memories_.push_back(agreed(all, [&] {
    return std::make_shared<NetworkMemory>(
        on_.gpu.device, where_, NetworkRoom{on_device, ProbeMemory::kBytes, kWordBytes, kWordBytes, kWordBytes});
  }));
  launches_ = agreed(all, [&] { return std::make_shared<AnnouncedLaunches>(on_.gpu.device); });
}

BetweenHosts::~BetweenHosts() {
  const bool messages_may_run = messages_->may_be_replayed();
  if (messages_may_run) messages_->keep_for_good();
  if (!captured_.may_run() && !messages_may_run) return;
  try {
    end_replays();
  } catch (const std::exception&) {  // the device is out of order, and replays nothing
  }
  // What a launch looks at before it knows. It stays for as long as the process, since nobody who hears of a graph's
  // end may call the driver then.
  own_->faults.end_deadlines();
  static_cast<void>(own_.release());
  static_cast<void>(peers_.release());
  static_cast<void>(std::make_unique<CapturedCalls>(std::move(captured_)).release());
}

void BetweenHosts::end_replays() {
  const gpu::Device& device = *on_.gpu.device;
  const gpu::Device::Current current(device);
  const gpu::OwnedStream stream(on_.gpu.device);
  const gpu::BesideCaptures beside(device.driver());
  static_assert(gpu::kEnded < 256, "a byte of it is written");
  device.check(device.driver().cuMemsetD8Async(own_->control.address() + offsetof(gpu::Control, failed), gpu::kEnded, 1,
                                               stream.get()),
               "cuMemsetD8Async");
  device.check(device.driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

bool BetweenHosts::has_groups() const {
  if (on_.topology.levels() == 0) return false;
  const auto domains = on_.topology.partition(on_.topology.everyone(), on_.topology.levels() - 1);
  return domains.size() < on_.topology.everyone().size() &&
         std::ranges::all_of(
             domains,
             [&](const Ranks& domain) {
               const Ranks here = on_host_of(domain[0]);
               return std::ranges::all_of(domain, [&](int r) { return std::ranges::count(here, r) > 0; });
             });
}

Ranks BetweenHosts::neighbours_of(int rank, const std::vector<std::string>& hosts) {
  Ranks ranks;
  for (int r = 0; r < static_cast<int>(hosts.size()); ++r)
    if (hosts[r] == hosts[rank]) ranks.push_back(r);
  return ranks.size() <= gpu::kMostRanks ? ranks : Ranks{rank};
}

void BetweenHosts::set_timeout(double timeout_s) { own_->faults.set_timeout(timeout_s, kLongerThanHost); }

void BetweenHosts::network_is(const Link& link) {
  const auto wanted = [&](double of_a_lane, int most) {
    const double lanes = 1 / link.beta_s_per_byte / of_a_lane;
    const double nearest = std::exp2(std::round(std::log2(std::min(lanes, double{kMostAddingLanes}))));
    const int allowed = on_.gpu.max_ctas ? std::min(on_.gpu.max_ctas, most) : most;
    return std::min(std::max(static_cast<int>(nearest), kFewLanes), allowed);
  };
  most_lanes_ = wanted(kLaneBytesPerS, kMostNetworkLanes);
  most_adding_ = wanted(kAddingLaneBytesPerS, kMostAddingLanes);
  window_ = static_cast<std::size_t>(kLatenciesUnderWay * link.alpha_s / link.beta_s_per_byte);
  bound_.clear();
}

Slicing BetweenHosts::slicing_for(const Plan& plan, const Shape& shape, const CountsBound& counts) const {
  if (counts.known == CountsKnown::by_pairs)  // nobody knows how much there is to move
    return {static_cast<int>(std::bit_floor(static_cast<unsigned>(most_lanes_))), shape.chunks, 1};
  const std::size_t bytes = counts.known == CountsKnown::before
                                ? full_bytes(plan, shape) / static_cast<std::size_t>(shape.slice.count)
                                : counts.all;
  const auto chunks = static_cast<std::size_t>(shape.chunks);
  const auto at_most = [](std::size_t wanted, int most) {
    return static_cast<int>(std::bit_floor(std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(most))));
  };
  const Kind kind = plan.collective.kind;
  const bool may_add = may_reduce(kind);
  const int lanes = at_most(bytes / kLaneBytes, may_add ? most_adding_ : most_lanes_);
  return {lanes, shape.chunks, at_most(bytes / chunks / kChannelBytes, std::min(lanes, kChannels))};
}

int BetweenHosts::least_chunks(std::size_t bytes) {
  return static_cast<int>(std::max<std::size_t>(1, (bytes + kMostChunkBytes - 1) / kMostChunkBytes));
}

Plan BetweenHosts::make(const Collective& collective, int rank, const std::string& algorithm) const {
  Plan plan = make_plan(collective, rank, on_.topology, without_groups(algorithm, collective.kind));
  plan.algorithm = algorithm;
  return plan;
}

std::size_t BetweenHosts::longest_in_ring(std::size_t neighbours) {
  return gpu::ring_bytes(static_cast<gpu::u32>(neighbours)) / kMessagesInRing;
}

ProgramShape BetweenHosts::shaped(const Plan& plan, const Shape& shape, const CountsBound& counts) const {
  ProgramShape bound = program_shape(plan, shape);
  const Ranks here = on_host_of(plan.rank);
  bound.between_hosts = {here, where_.least_on_device, longest_in_ring(here.size())};
  bound.counts = counts.known;
  return bound;
}

std::shared_ptr<const BoundProgram> BetweenHosts::bind(Plan plan, Shape shape, const CountsBound& counts) {
  const gpu::Device::Current current(*on_.gpu.device);
  const Slicing slicing = slicing_for(plan, shape, counts);
  ProgramShape bound = shaped(plan, shape, counts);
  return std::make_shared<const BoundProgram>(on_.gpu.device, std::move(plan), std::move(shape), std::move(bound),
                                              slicing);
}

void BetweenHosts::prove(const std::vector<Plan>& plans, const Shape& shape, const CountsBound& counts) const {
  const Slicing slicing = slicing_for(plans[0], shape, counts);
  check_queues(plans, [&](const Plan& plan) { return shaped(plan, shape, counts); }, slicing);
}

std::shared_ptr<const BoundProgram> BetweenHosts::bind(const Call& call, bool in_place, const Choice& choice) {
  const Collective collective = collective_of(call, on_.topology.size(), in_place);
  if (BoundedCall::serves(call)) return bind_counted(BoundedCall(call), collective, choice);
  Shape shape = shape_of(call);
  const std::size_t bytes = full_bytes(call, on_.topology.size()) / static_cast<std::size_t>(call.slice.count);
  shape.chunks = std::max(choice.chunks, least_chunks(bytes));
  return bound_.make(collective, call, call.algorithm, bind(collective, std::move(shape), choice.algorithm, {}));
}

std::shared_ptr<const BoundProgram> BetweenHosts::bind(const Collective& collective, Shape shape,
                                                       const std::string& algorithm, const CountsBound& counts) {
  if (on_.topology.size() <= kProvenRanks) {
    std::vector<Plan> plans;
    plans.reserve(static_cast<std::size_t>(on_.topology.size()));
    for (int r = 0; r < on_.topology.size(); ++r) plans.push_back(make(collective, r, algorithm));
    prove(plans, shape, counts);
  }
  return bind(make(collective, rank_, algorithm), std::move(shape), counts);
}

std::shared_ptr<const BoundProgram> BetweenHosts::bind_counted(const BoundedCall& call, const Collective& collective,
                                                               const Choice& choice) {
  const Call& bounded = call.call();
  Shape shape = shape_of(bounded);
  if (bounded.own_counts()) {
    require_own_counts_suffice(bounded, on_.topology, choice.algorithm);
    shape.piece = gpu::kLongPairChunk / size_of(bounded.dtype);
    // Never one, so that ranks that are bound to other lengths have the same delays.
    shape.chunks = std::max(2, static_cast<int>(gpu::pair_chunks(call.bound())));
    return bound_.make(collective, bounded, bounded.algorithm,
                       bind(make(collective, rank_, choice.algorithm), std::move(shape), {CountsKnown::by_pairs, 0}));
  }
  shape.chunks = std::max(choice.chunks, least_chunks(call.all()));
  return bound_.make(collective, bounded, bounded.algorithm,
                     bind(collective, std::move(shape), choice.algorithm, {CountsKnown::to_all, call.all()}));
}

std::shared_ptr<const BoundProgram> BetweenHosts::find(const Call& call, bool in_place) {
  const Collective collective = collective_of(call, on_.topology.size(), in_place);
  const auto found_for = [&](const Call& like) -> std::shared_ptr<const BoundProgram> {
    const auto* const found = bound_.find(collective, like, like.algorithm);
    return found ? *found : nullptr;
  };
  return BoundedCall::serves(call) ? found_for(BoundedCall(call).call()) : found_for(call);
}

bool BetweenHosts::has_room_for(const std::shared_ptr<const BoundProgram>& program, bool captured) const {
  return !captured && on_.enqueued.programs.keeps(program) &&
         memories_.back()->room().holds(room_for(program->program()));
}

void BetweenHosts::make_room_for(const std::shared_ptr<const BoundProgram>& program, bool captured) {
  const gpu::Device::Current current(*on_.gpu.device);
  if (captured)
    on_.enqueued.known.add(program);  // it lasts as long as the graph
  else
    on_.enqueued.programs.keep(program, /*captured=*/false);
  const NetworkRoom room = room_for(program->program());
  const NetworkRoom& now = memories_.back()->room();
  if (now.holds(room)) return;
  const auto larger = [](std::size_t a, std::size_t b) { return a >= b ? a : std::max(b, 2 * a); };
  memories_.push_back(std::make_shared<NetworkMemory>(
      on_.gpu.device, where_,
      NetworkRoom{larger(now.on_device, room.on_device), larger(now.on_host, room.on_host), larger(now.told, room.told),
                  larger(now.says, room.says), larger(now.heard, room.heard)}));
}

BetweenHosts::Prepared BetweenHosts::prepare(const ComposedOnGpu& call, Router& router, gpu::Stream stream,
                                             bool captured) {
  const gpu::Device::Current current(*on_.gpu.device);
  CallBetweenHosts turn{call.program, call.in, call.out, memories_.back(), call.counts};
  if (turn.counts) on_.enqueued.known.add(turn.program, turn.signature());
  Proxy::ProxySurroundings around{launches_, where_.needs_context ? on_.gpu.device : nullptr, [this] { raise_fault(); },
                                  window_};
  auto proxy = std::make_shared<Proxy>(turn, std::move(around), router);
  if (!captured) return {std::move(turn), std::move(proxy)};
  turn.captured = captured_.next_number();
  captured_.add(turn.captured, std::move(proxy), gpu::GraphLife(*on_.gpu.device, stream));
  return {std::move(turn), nullptr};
}

void BetweenHosts::raise_fault() const {
  if (const auto met = fault()) on_.enqueued.known.raise(*met);
}

void BetweenHosts::enqueue(const CallBetweenHosts& call, gpu::Stream stream) const {
  const gpu::Device::Current current(*on_.gpu.device);
  on_.enqueued.order.in_turn(stream, /*captured=*/call.captured != 0, [&] {
    const Program& program = call.program->program();
    gpu::ProgramRun run = call.program->run(call.in, call.out);
    call.memory->fill(run);
    launches_->fill(run);
    run.signature = call.program->signature(call.signature());
    if (call.counts) call.counts->fill(run);
    run.captured = call.captured;
    peers_->run(call.program->shape().dtype, run, program.slicing.lanes, stream);
  });
}

}  // namespace lanecast
