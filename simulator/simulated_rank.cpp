// SPDX-License-Identifier: Apache-2.0
#include "simulated_rank.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/communicator/compiling.h"

namespace lanecast::simulator {
namespace {

Router router_of(int rank, int ranks, std::unique_ptr<Transport> transport) {
  std::vector<int> by_peer(ranks, 0);
  by_peer[rank] = -1;
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::move(transport));
  return {std::move(transports), std::move(by_peer)};
}

std::shared_ptr<Execution> compile(const ComposedCall& call, const CallToRun& what, int rank, PlanCache& plans) {
  Compiling compiling(call, what.topology, rank);
  compiling.check(/*reproducible=*/false);
  compiling.shape(/*usual_chunks=*/0);
  ExecutorOptions options;
  options.window = what.job.window;
  options.chunks_in_flight = std::max(options.chunks_in_flight, compiling.machine().stages() + 1);
  return plans.bind(std::make_shared<PreparedPlan>(compiling.plan()), compiling.shape(), options);
}

ExecutorOptions options_of(const Job& job) {
  ExecutorOptions options;
  options.window = job.window;
  return options;
}

}  // namespace

SimulatedRank::SimulatedRank(const CallToRun& call, int rank, PostOffice& office)
    : rank_(rank),
      buffers_(call.job, rank),
      router_(router_of(rank, call.job.ranks, std::make_unique<RankTransport>(rank, call.job, clock_, office))),
      transport_(static_cast<RankTransport*>(&router_[0])),
      plans_(call.topology, rank, router_, options_of(call.job)) {
  const Call plain = buffers_.call();
  if (call.composition)
    execution_ = compile(buffers_.composed(call.composition), call, rank, plans_);
  else
    execution_ = plans_.make(plain, check(plain, rank, call.job.ranks),
                             {.algorithm = std::string(plain.algorithm), .chunks = plain.chunks});
  in_ = static_cast<const std::byte*>(plain.in);
  out_ = static_cast<std::byte*>(plain.out);
}

std::size_t SimulatedRank::sends() const {
  const auto sent = std::ranges::count(execution_->plan().steps, StepKind::send, &Step::kind);
  return static_cast<std::size_t>(sent) * static_cast<std::size_t>(execution_->shape().chunks);
}

void SimulatedRank::go_on(double now_s) {
  clock_.busy_until_s = std::max(clock_.busy_until_s, now_s);
  if (!std::exchange(begun_, true))
    execution_->start(in_, out_, /*stamp=*/0);
  else
    execution_->advance();
  // Where it waits for no message, what is left is its own work.
  while (transport_->is_idle() && !execution_->finished())
    if (!execution_->advance()) break;
  clock_.settle();
}

void SimulatedRank::finish(const Message& message, double now_s) {
  const bool waits = !transport_->has_finished() && clock_.busy_until_s <= now_s;
  transport_->finish(message, waits);
}

}  // namespace lanecast::simulator
