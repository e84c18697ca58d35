// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/gpu_executor.h"

#include <algorithm>
#include <utility>

#include "algorithms/algorithms.h"
#include "base/agreed.h"
#include "plan/verify.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {

GpuExecutor::GpuExecutor(const Bootstrap& bootstrap, const Topology& topology, const GpuOptions& options,
                         const GpuNeighbours& neighbours)
    : rank_(bootstrap.rank),
      topology_(topology),
      gpu_(open_together(bootstrap, options)),
      device_(gpu_.device),
      lines_(gpu_kind(gpu_.kind)),
      peers_(connect_all(bootstrap, gpu_, neighbours.hosts)),
      reachable_buffers_(peers_ ? std::make_unique<ReachableBuffers>(device_, bootstrap) : nullptr),
      between_hosts_(peers_
                         ? nullptr
                         : std::make_unique<BetweenHosts>(gpu_, topology, bootstrap,
                                                          BetweenHosts::Neighbours{neighbours.hosts, neighbours.among},
                                                          agree_where_messages_lie(bootstrap, options, *device_))),
      order_of_calls_(agreed(bootstrap, [&] { return OrderOfCalls(device_); })),
      order_of_messages_(device_) {
  if (peers_) peers_->listen(options.hears);
}

GpuExecutor::~GpuExecutor() {
  const gpu::Device::Current current(*device_);
  device_->driver().cuCtxSynchronize();  // replayed graphs too; its error would be one that others have raised
}

void GpuExecutor::set_timeout(double timeout_s) {
  if (std::exchange(gpu_.timeout_s, timeout_s) == timeout_s) return;
  if (peers_) peers_->set_timeout(timeout_s);
  if (between_hosts_) between_hosts_->set_timeout(timeout_s);
}

void GpuExecutor::choose_by(const std::vector<PeerFits>& measured) {
  if (peers_) lines_ = PeerLines::among(measured, gpu_.kind, topology_.size());
}

PeerTraffic GpuExecutor::traffic_of(const Call& call, bool symmetric) const {
  const std::size_t bytes = full_bytes(call, topology_.size());
  return {call.kind, topology_.size(),          bytes,
          symmetric, peers_->cuts().few_ctas(), peers_->pumps(call.dtype, call.op, bytes)};
}

PeerEngine GpuExecutor::engine_for(const Call& call, const InHostBuffers& buffers,
                                   std::optional<PeerEngine> pinned) const {
  const PeerTraffic traffic = traffic_of(call, direct_takes(call.kind, call.own_counts(), buffers));
  // Of a size that not all know the kernel is taken.
  if (!pinned) return call.own_counts() ? PeerEngine::kernel : fastest(traffic, lines_, has_staging());
  if (!takes(*pinned, traffic))
    throw UsageError("rank " + std::to_string(rank_) + ": algorithm '" + std::string(name_of(*pinned)) + "' takes " +
                     (*pinned == PeerEngine::two_shot
                          ? "an all_reduce or a broadcast, which this is not"
                          : "tensors from symmetric_empty(), in an all_gather, reduce_scatter, all_reduce or even "
                            "all_to_all, since it reads and writes at the peers"));
  return *pinned;
}

Explanation GpuExecutor::explain(const Call& call, bool symmetric, std::string_view pinned) const {
  return lanecast::explain(traffic_of(call, symmetric), lines_, pinned, has_staging());
}

bool GpuExecutor::offers(const Call& call, const InHostBuffers& buffers, PeerEngine engine) const {
  return (engine == PeerEngine::kernel || engine == PeerEngine::two_shot) && can_offer(call.kind, buffers) &&
         worth_an_offer(traffic_of(call, /*symmetric=*/false), lines_.gpu());
}

InHostCall& GpuExecutor::bound(const Call& call, bool in_place, PeerEngine engine) {
  const Collective collective = collective_of(call, topology_.size(), in_place);
  Call whole = call;
  whole.chunks = 1;  // kernels and copy engines cut messages by themselves
  if (InHostCall* const found = calls_.find(collective, whole, name_of(engine))) return *found;
  std::vector<Plan> plans;
  plans.reserve(topology_.size());
  for (int r = 0; r < topology_.size(); ++r) plans.push_back(make_plan(collective, r, topology_, "native"));
  verify(plans);
  plans[rank_].algorithm = name_of(engine);
  return calls_.make(collective, whole, name_of(engine), std::move(plans[rank_]), shape_of(whole), engine);
}

void GpuExecutor::enqueue(const Call& call, bool in_place, std::optional<PeerEngine> pinned, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const bool captured = order_of_calls_.capturing(stream);
  if (!captured) reachable_buffers_->look();
  InHostBuffers buffers = reachable_buffers_->of(call);
  const PeerEngine engine = engine_for(call, buffers, pinned);
  if (!pinned && offers(call, buffers, engine)) buffers.windows.table = reachable_buffers_->table();
  InHostCall& what = bound(call, in_place, engine);
  texts_.try_emplace(what.signature(buffers), what.text());
  order_of_calls_.in_turn(stream, captured, [&] { what.enqueue(buffers, *peers_, stream); });
}

GpuExecutor::Prepared GpuExecutor::prepare(const Call& call, bool in_place, const std::function<Choice()>& choose,
                                           Router& router) {
  return prepare(between_hosts_->bind(call, in_place, choose), call.in, call.out, router);
}

GpuExecutor::Prepared GpuExecutor::prepare(std::shared_ptr<const BoundProgram> program, const void* in, void* out,
                                           Router& router) {
  const gpu::Device::Current current(*device_);
  keep(program, /*captured=*/false);
  CallBetweenHosts turn = between_hosts_->begin(std::move(program), in, out);
  auto proxy = between_hosts_->proxy(turn, [this] { raise_fault(); }, router);
  return {std::move(turn), std::move(proxy)};
}

void GpuExecutor::enqueue(const CallBetweenHosts& call, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  order_of_calls_.in_turn(stream, order_of_calls_.capturing(stream), [&] { between_hosts_->enqueue(call, stream); });
}

std::shared_ptr<const BoundProgram> GpuExecutor::bind_program(Plan plan, Shape shape, Slicing slicing) {
  const gpu::Device::Current current(*device_);
  const ProgramShape bound = program_shape(plan, shape);
  return std::make_shared<const BoundProgram>(device_, std::move(plan), std::move(shape), bound, slicing);
}

Slicing GpuExecutor::slicing_of(const std::vector<Plan>& plans, const Shape& shape, int chunks) const {
  return lanecast::slicing_of(plans, shape, chunks, gpu::ring_bytes(static_cast<gpu::u32>(topology_.size())),
                              [this](std::size_t bytes) { return peers_->lanes_for(bytes); });
}

void GpuExecutor::keep(const std::shared_ptr<const BoundProgram>& program, bool captured) {
  if ((captured ? captured_ : running_).contains(program)) return;
  texts_.try_emplace(program->signature(), program->text());
  programs_[program->signature()] = program;
  if (captured) {
    captured_.insert(program);
    return;
  }
  const gpu::BesideCaptures beside(device_->driver());
  if (running_.size() >= kPrograms) device_->check(device_->driver().cuCtxSynchronize(), "cuCtxSynchronize");
  if (running_.size() >= kPrograms || idle()) running_.clear();
  running_.insert(program);
}

std::shared_ptr<const BoundProgram> GpuExecutor::named_program(const Call& call, bool in_place,
                                                               const std::function<Choice()>& choose) {
  const Collective collective = collective_of(call, topology_.size(), in_place);
  if (auto* const found = named_programs_.find(collective, call, call.algorithm)) return *found;
  const std::string algorithm = choose().algorithm;
  // Whether other ranks are in place nobody knows, and their messages are the same either way.
  std::vector<Plan> plans;
  plans.reserve(topology_.size());
  for (int r = 0; r < topology_.size(); ++r)
    plans.push_back(make_plan(collective, r, topology_, without_groups(algorithm, call.kind)));
  verify(plans);
  Shape shape = shape_of(call);
  const Slicing slicing = slicing_of(plans, shape, call.chunks);
  shape.chunks = slicing.chunks;
  check_queues(plans, [&](const Plan& plan) { return program_shape(plan, shape); }, slicing);
  plans[rank_].algorithm = algorithm;
  return named_programs_.make(collective, call, call.algorithm, bind_program(std::move(plans[rank_]), shape, slicing));
}

void GpuExecutor::enqueue(const Call& call, bool in_place, const std::function<Choice()>& choose, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  enqueue(named_program(call, in_place, choose), call.in, call.out, stream);
}

void GpuExecutor::enqueue(const std::shared_ptr<const BoundProgram>& program, const void* in, void* out,
                          gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const bool captured = order_of_calls_.capturing(stream);
  keep(program, captured);
  order_of_calls_.in_turn(stream, captured, [&] {
    peers_->by_program(program->shape().dtype, program->run(in, out), program->program().slicing.lanes, stream);
  });
}

void GpuExecutor::open_native(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                              const std::function<void(double)>& keep_waiting) {
  const gpu::Device::Current current(*device_);
  native_ = std::make_shared<NativeCalls>(gpu_, bootstrap, library_folders, keep_waiting);
}

std::shared_ptr<NativeRun> GpuExecutor::enqueue_native(const Call& call, bool in_place, Router& router,
                                                       gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  NativeCalls::Enqueued enqueued;
  order_of_calls_.in_turn(stream, order_of_calls_.capturing(stream),
                          [&] { enqueued = native_->enqueue(call, in_place, topology_, stream); });
  return std::make_shared<NativeRun>(std::move(enqueued), native_, router);
}

bool GpuExecutor::messages_idle() const {
  return std::ranges::all_of(order_of_messages_.ends(),
                             [this](const auto& end) { return order_of_calls_.passed(*end); });
}

void GpuExecutor::enqueue(std::span<const Transfer> transfers, gpu::Stream stream) {
  const std::string rank_says = "rank " + std::to_string(rank_) + ": ";
  if (!peers_)
    throw UsageError(rank_says + "messages of a GPU's memory go among the ranks of one host, and these are on several");
  const std::vector<peers::PeerMessage> messages = peer_messages(transfers, rank_);
  if (messages.empty()) return;
  const gpu::Device::Current current(*device_);
  const bool captured = order_of_calls_.capturing(stream);
  if (!captured) order_of_messages_.begin(transfers, stream);
  peers_->exchange(messages, stream);
  if (!captured) order_of_messages_.end(transfers, stream);
}

void GpuExecutor::require_own(const void* memory, const char* argument) const {
  if (memory == nullptr) return;
  const gpu::Device::Current current(*device_);
  int ordinal = -1;
  const int result = device_->driver().cuPointerGetAttribute(&ordinal, gpu::kPointerDeviceOrdinal,
                                                             reinterpret_cast<gpu::Address>(memory));
  if (result != gpu::kSuccess || ordinal != device_->ordinal())
    throw UsageError("rank " + std::to_string(rank_) + ": " + argument + " does not lie on GPU " +
                     std::to_string(device_->ordinal()) + ", which this communicator uses");
}

void GpuExecutor::require_usable(const void* memory, const char* argument, DType dtype, int device) const {
  if (device == kUnknownDevice) require_own(memory, argument);
  // Of an element in two parts a GPU's kernel faults, and with it all else of the process that runs there.
  if (reinterpret_cast<std::uintptr_t>(memory) % size_of(dtype) != 0)
    throw UsageError("rank " + std::to_string(rank_) + ": " + argument + " does not begin at a multiple of the " +
                     std::to_string(size_of(dtype)) + " bytes of " + std::string(name_of(dtype)) +
                     "; a GPU's memory has to");
}

}  // namespace lanecast
