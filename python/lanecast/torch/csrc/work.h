// SPDX-License-Identifier: Apache-2.0
// What a call of torch.distributed returns. Of the CPU's tensors it is a HostWork, of a GPU's a DeviceWork.
#pragma once

#include <lanecast/lanecast.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tensors.h"
#include "watch.h"

namespace lanecast_torch {

class Engine;

class Work : public c10d::Work {
 public:
  struct Call {
    int rank;
    c10d::OpType type;
    std::string profiling_title;
    Tensors inputs;   // of the profile
    Tensors outputs;  // of result() and the future
    std::uint64_t sequence;
    std::shared_ptr<Watch> watch;  // the group's
  };

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  /// Milliseconds. Raises where the group did not time its calls yet when this one was made, and before its end.
  float getDuration() const override { return milliseconds_until(*this); }
  /// From the begin of this one to the end of another of its kind, of this group.
  float milliseconds_until(const Work& last) const;
  std::uint64_t getSequencenumber() const override { return sequence_; }

  /// Has `start` hand its calls to the core by start() below; throws what it throws.
  virtual void launch(const std::function<void(Work&)>& start) = 0;

  // While it is launched:

  /// The tensor's memory belongs to the call until it is done.
  void keep(at::Tensor tensor) { kept_.push_back(std::move(tensor)); }
  /// What is left to do when the calls have succeeded, before anyone hears of it, in the order of these calls.
  void on_arrival(std::function<void()> step) { on_arrival_.push_back(std::move(step)); }
  /// The tensor's memory belongs to the call, and on arrival the tensors get what has come.
  void deliver(const SideBySide& arrived);
  /// `timeout`: without progress; unset: the group's.
  virtual void start(Engine& engine, const lanecastCall_t& call, std::chrono::milliseconds timeout) = 0;

 protected:
  /// devices: none for the CPU.
  Work(const Call& call, std::vector<c10::Device> devices);

  /// Takes the steps that were left for the arrival.
  void arrive();

  /// The work has ended: tells whoever wants to know, once and for all.
  void conclude(const std::exception_ptr& error);
  /// Sees to it that conclude() is called, where nobody else does; somebody wants to know. mutex_ is held.
  virtual void await_end() {}

  const std::shared_ptr<Watch> watch_;
  const bool timed_;
  const std::chrono::steady_clock::time_point begin_;  // where it is timed
  std::optional<Watch::Pending> pending_in_watch_;
  Tensors kept_, outputs_;
  std::vector<std::function<void()>> on_arrival_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;

 private:
  virtual float measured_until(const Work& last) const = 0;  // both are timed
  void call_hook();

  const std::uint64_t sequence_;
  std::optional<c10d::WorkResult> result_;                 // once it has ended; guarded by mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_result_;  // once somebody has asked; guarded by mutex_
};

/// A future of how a work ends.
c10::intrusive_ptr<c10::ivalue::Future> future_of_result();
/// A future of the tensors that calls give, which lie on `devices`; none: on the CPU.
c10::intrusive_ptr<c10::ivalue::Future> future_of_tensors(std::vector<c10::Device> devices);

}  // namespace lanecast_torch
