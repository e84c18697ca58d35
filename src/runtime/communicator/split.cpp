// SPDX-License-Identifier: Apache-2.0
// A communicator from a part of another one's ranks. They find each other over the parent's own transports, so that a
// split needs no launcher, and afterwards over the child's, so that it may outlive its parent.
#include <algorithm>

#include "base/mix.h"
#include "runtime/agree/bootstrap_over.h"
#include "runtime/agree/wait_chain.h"
#include "runtime/communicator/parts.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/wires/level_names.h"
#include "transport/mpi/communicator.h"

namespace lanecast {
namespace {

constexpr std::uint64_t kHash = 0x5311;  // no collective's

/// A split that has not heard of some ranks, as those see it that want messages before they come to it.
class Split final : public UnderWay {
 public:
  explicit Split(std::span<const int> missing) : missing_(missing) {}
  bool advance() override { return false; }
  bool finished() const override { return false; }
  std::string waiting_for(int /*peer*/) const override { return "split"; }
  std::vector<int> awaited_peers() const override { return {missing_.begin(), missing_.end()}; }
  bool awaits_message(int peer) const override { return std::ranges::find(missing_, peer) != missing_.end(); }
  Needs needs(int peer) const override { return awaits_message(peer) ? Needs::yes : Needs::no; }

 private:
  std::span<const int> missing_;
};

/// MPI's communicator of a split, while MPI waits for its members.
class SplitOverMpi final : public UnderWay {
 public:
  SplitOverMpi(Router& router, MpiCommunicator::Making making, std::vector<int> others, std::string what)
      : router_(router), making_(std::move(making)), others_(std::move(others)), what_(std::move(what)) {}
  bool advance() override {
    const bool moved = router_.progress();
    made_ = making_();
    return moved || made_;
  }
  bool finished() const override { return made_ != nullptr; }
  std::string waiting_for(int /*peer*/) const override { return what_; }
  std::vector<int> awaited_peers() const override { return others_; }
  /// One that has made it may have left.
  bool awaits_message(int /*peer*/) const override { return false; }
  const std::shared_ptr<MpiCommunicator>& made() const { return made_; }

 private:
  Router& router_;
  MpiCommunicator::Making making_;
  std::vector<int> others_;
  std::string what_;
  std::shared_ptr<MpiCommunicator> made_;
};

/// The parent's pinned algorithm, unless it needs levels that the child does not have.
std::string algorithm_for(const std::string& pinned, const Topology& topology) {
  return any_has_algorithm(topology, pinned) ? pinned : std::string();
}

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int color, int key, const Interrupt& interrupt, int max_ctas) {
  const std::unique_lock lock = parts_->gate.enter(interrupt);
  parts_->gate.refuse_if_failed();
  if (!parts_->calls.empty()) throw UsageError("split: wait for the started calls of this communicator first");
  return parts_->failing.or_fail<UsageError>([&] { return make_child(color, key, interrupt, max_ctas); });
}

std::unique_ptr<Communicator> Communicator::make_child(int color, int key, const Interrupt& interrupt, int max_ctas) {
  Ground& ground = parts_->ground;
  Waits& waits = parts_->waits;
  struct ColorAndKey {
    int color, key;
  };
  const ColorAndKey mine{color, key};
  std::vector<ColorAndKey> places(size());
  // A call as others are, which ranks compare; it leaves no record, since it moves none of the caller's data.
  const std::uint64_t call = waits.next_call();
  const std::uint32_t stamp = waits.agreement().begin(call, {.text = "split", .hash = kHash, .own = {}});
  const std::string what = "split (call " + std::to_string(call) + ")";
  Gathering everyone{.ranks = ground.topology.everyone(), .what = what, .stamp = stamp, .meanwhile = {}};
  everyone.meanwhile = [&](std::span<const int> missing, std::chrono::steady_clock::time_point last_moved) {
    parts_->gate.ask(interrupt);
    ground.log.waits(what + " for " + names_of(missing));
    waits.ran().look(waits.timeout_s());
    waits.agreement().compare(missing, waits.ran().since(last_moved));
    waits.agreement().refuse_unmet_wants(Split(missing), {missing, last_moved, waits.ran(), /*blocked=*/true});
  };
  waits.among(everyone).all_gather(&mine, places.data(), sizeof mine);
  ground.log.waits({});
  ++parts_->splits;
  if (color < 0) return nullptr;

  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (places[r].color == color) ranks.push_back(r);
  std::sort(ranks.begin(), ranks.end(),
            [&](int a, int b) { return std::pair(places[a].key, a) < std::pair(places[b].key, b); });

  Surroundings child;
  child.bootstrap = waits.among(
      {.ranks = ranks, .what = what, .stamp = stamp, .meanwhile = [&](auto...) { parts_->gate.ask(interrupt); }});
  child.world = ground.around.world;
  child.channel = mix(mix(ground.around.channel, parts_->splits), static_cast<std::uint64_t>(ranks[0]));
  if (ground.around.mpi) {
    child.bootstrap.barrier();  // where MPI was started without threads it waits here: only once all have heard of it
    std::vector<int> others = ranks;
    std::erase(others, rank());
    SplitOverMpi split(*ground.router, ground.around.mpi->group(ranks), std::move(others),
                       "the making of a split's MPI communicator");
    waits.drive(split, interrupt);
    child.mpi = split.made();
  }
  for (int r : ranks) child.hosts.push_back(ground.around.hosts[r]);
  if (ground.around.decorate)
    child.decorate = [decorate = ground.around.decorate, ranks](std::unique_ptr<Transport> transport,
                                                                const std::vector<int>& members) {
      std::vector<int> ours;
      ours.reserve(members.size());
      for (int member : members) ours.push_back(ranks[member]);
      return decorate(std::move(transport), ours);
    };

  CommunicatorOptions options = ground.options;
  options.topology.clear();
  options.placed = ground.topology.subset(ranks);
  options.from_environment = false;  // it has had its say
  options.part.reset();
  if (max_ctas != 0) options.max_ctas = options.max_ctas == 0 ? max_ctas : std::min(options.max_ctas, max_ctas);
  options.algorithm = algorithm_for(ground.options.algorithm, *options.placed);
  options.transports = LevelNames(ground.options.transports, ground.topology, "topology").subset(ranks);
  auto communicator = std::make_unique<Communicator>(std::move(child), std::move(options), ground.progress);
  // The ranks outside the child still want the cores.
  if (ground.rivals != Rivals::none) communicator->parts_->ground.share_cores();
  Models known = subset(choosing().models(), ground.topology, ranks);
  Choosing::GpuLinks on_gpus = choosing().gpu_links();
  if (!on_gpus.links.empty()) {
    Models as_known;
    as_known.links = std::move(on_gpus.links);
    on_gpus.links = subset(as_known, ground.topology, ranks).links;
  }
  inherit_links(communicator->parts_->choosing, known, on_gpus);
  communicator->parts_->choosing.choose_by(std::move(known));
  if (GpuExecutor* const gpu = communicator->parts_->gpu.opened()) gpu->choose_by(communicator->choosing().models());
  communicator->parts_->ground.around.bootstrap
      .all_gather = {};  // it holds the parent and its transports, which may go now
  return communicator;
}

}  // namespace lanecast
