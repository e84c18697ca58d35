// SPDX-License-Identifier: Apache-2.0
// The backend "lanecast" of torch.distributed: one group's calls, translated to the core's.
//
// No method of a collective knows a device: launch() makes the work that is for the tensors', and puts what the method
// does behind the caller's stream.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "device_work.h"
#include "engine.h"
#include "host_work.h"
#include "on_demand.h"
#include "options.h"
#include "tensors.h"
#include "types.h"
#include "watch.h"

namespace lanecast_torch {

using c10d::OpType;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

class Backend final : public c10d::Backend {
 public:
  using Options = lanecast_torch::Options;  // all of them, where the base class has a name and a timeout

  /// A group of the same ranks.
  struct Group {
    c10::intrusive_ptr<c10d::Store> store;
    int rank, size;
  };
  /// Makes another backend, "gloo", which takes what this one is not built for. Collective, when called.
  using MakeUnderstudy = std::function<BackendPtr(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank, int size, std::chrono::milliseconds timeout)>;

  /// Bytes of a group's own pool on the current GPU, as a tensor.
  using TakeFromPool = std::function<at::Tensor(std::int64_t bytes, int device)>;
  /// What Python does for a backend.
  struct Helpers {
    MakeUnderstudy make_understudy;
    std::function<TakeFromPool()> make_pool;
  };

  Backend(Group group, std::unique_ptr<Engine> engine, c10::intrusive_ptr<Options> options, Helpers helpers);
  ~Backend() override;

  const std::string getBackendName() const override { return options_->name; }

  // Reductions.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;

  // From one to all, from all to all alike, from all to one.
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;

  // From each to each.
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;

  // Messages and meetings.
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) override;

  // Several calls as one.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // Memory that the peers map, so that calls on it copy nothing.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  /// Raises ValueError unless the peers can map what each of these is the start of.
  static void check_mappable(const std::vector<const void*>& segments);
  /// Has them do so; where that would be of no use, as before the GPU is open, nothing happens.
  void let_peers_map(const std::vector<const void*>& segments);
  /// How many calls have copied nothing.
  std::uint64_t calls_without_copies() { return engine_->calls_without_copies(); }
  /// How many peers have messages by a communicator of the two alone.
  std::size_t pairs() const { return pairs_.all_made().size(); }

  // The group's life.
  bool supportsSplitting() const override { return true; }
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  BackendPtr merge(const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend::Options>& opts,
                   const int& rank, const int& size) override;
  bool supportsShrinking() const override { return true; }
  BackendPtr shrink(const std::vector<std::int64_t>& excluded, int flags,
                    const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  c10::intrusive_ptr<Options> options() const { return options_; }
  /// The job that the environment describes: how many ranks it has, and which this group; 0: all.
  std::pair<int, std::vector<int>> job() const { return {options_->job_size, options_->job_ranks}; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  void enableCollectivesTiming() override { watch_->time_works(); }
  void registerOnCompletionHook(Watch::Hook&& hook) override;
  void waitForPendingWorks() override;
  c10d::ErrorType getError() override;
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void eagerConnectSingleDevice(at::Device device) override;
  void abort() override;
  void shutdown() override;

  /// Shuts down every backend of this process, before the libraries below them end.
  static void shut_down_all();

 private:
  struct Launch {
    OpType type;
    const char* title;
    Tensors inputs, outputs;
    bool async = false;  // on a GPU: beside the caller's current stream, on the group's own
  };
  /// A message of a GPU's memory; the works of several are launched together.
  struct Message {
    c10::intrusive_ptr<DeviceWork> work;
    std::shared_ptr<Engine> engine;
    lanecastMessage_t what;
  };
  struct Coalesced {
    std::vector<WorkPtr> works;
    std::vector<Message> messages;  // on a GPU; their works are among the works
    std::exception_ptr refusal;     // of the first message that was refused
  };
  /// Where the tensors lie, all of them. Raises ValueError (rank, argument).
  c10::Device place_of(const Launch& what) const;
  Work::Call describe(const Launch& what);
  c10::intrusive_ptr<Work> make_work(const Launch& what);
  c10::intrusive_ptr<HostWork> make_host_work(const Launch& what);
  /// Makes a work, has `start` start its calls, and returns it.
  WorkPtr launch(const Launch& what, const std::function<void(Work&)>& start);
  /// The same for what only the CPU does.
  WorkPtr launch_on_host(const Launch& what, const std::function<void(HostWork&)>& start);
  WorkPtr barrier_on(c10::Device device, const c10d::BarrierOptions& opts);
  /// Makes a call of a batch. What it throws, endCoalescing() throws: where a message of a batch raises at once, torch
  /// leaves the group coalescing for good, and later collectives do nothing, without a word.
  WorkPtr refuse_at_the_end(const std::function<WorkPtr()>& call);
  WorkPtr post_send(Tensors& tensors, int destination, int tag);
  WorkPtr post_recv(Tensors& tensors, int source, int tag);
  /// Has `data` sent to a peer or received from it, by peer memory: at once, or where the calls that coalesce end.
  WorkPtr move_on_device(const Launch& what, const SideBySide& data, int peer);
  void launch_messages(const std::vector<Message>& messages);
  /// The group's, once its GPU is open. A first message before that has one of the two ranks alone, as not all come.
  std::shared_ptr<Engine> engine_for_messages(c10::Device device, int peer);
  std::shared_ptr<Engine> make_pair(c10::Device device, int peer);
  /// All messages of a batch by one engine have one.
  c10::Stream stream_for(Engine& engine, c10::Device device, bool sends, int peer) const;
  /// The group's, and those of pairs.
  std::vector<std::shared_ptr<Engine>> engines() const;
  /// The call, or of an average of integers the sums that make it up. arrived: what this rank gets; null: nothing.
  void start_reduction(Work& work, lanecastCall_t call, const Reduction& what, const SideBySide* arrived,
                       std::chrono::milliseconds timeout);
  void start_all_reduce(Work& work, const at::Tensor& tensor, const c10d::AllreduceOptions& opts);
  void start_reduce_scatter(Work& work, const at::Tensor& output, const at::Tensor& input,
                            const c10d::ReduceScatterOptions& opts);
  void start_reduce_scatter(Work& work, const at::Tensor& output, const SideBySide& shares,
                            const c10d::ReduceScatterOptions& opts);
  void start_all_gather(Work& work, const at::Tensor& output, const at::Tensor& input,
                        const c10d::AllgatherOptions& opts);
  void start_all_gather(Work& work, const SideBySide& shares, const at::Tensor& input,
                        const c10d::AllgatherOptions& opts);
  WorkPtr keep_if_coalescing(WorkPtr work);
  // Raise ValueError (call, argument, what was expected).
  void check_root(const char* call, std::int64_t root) const;
  void check_one_for_each_rank(const char* call, const char* argument, const TensorLists& lists) const;
  void check_even(const char* call, const char* argument, const SideBySide& shares, std::size_t count) const;
  /// Made for the first call, which waits for the peers. What has ended in the meantime raises DistBackendError.
  c10d::Backend& understudy(const std::string& name);
  /// For a group made from this one.
  c10::intrusive_ptr<Options> options_of_child(const c10::intrusive_ptr<c10d::Backend::Options>& opts) const;
  void drop_pool();

  const std::shared_ptr<Engine> engine_;  // shared with receives from any rank
  const c10::intrusive_ptr<Options> options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const Helpers helpers_;
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  OnDemand<std::string, BackendPtr> understudies_;  // by name
  OnDemand<int, std::shared_ptr<Engine>> pairs_;    // of two ranks, by the peer
  std::mutex pool_mutex_;                           // guards take_from_pool_
  TakeFromPool take_from_pool_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> monitored_barriers_ = 0;
  std::map<std::string, int> shrinks_;  // by whom they have left out
  std::optional<Coalesced> coalesced_;
};

}  // namespace lanecast_torch
