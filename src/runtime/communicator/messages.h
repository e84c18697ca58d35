// SPDX-License-Identifier: Apache-2.0
// MessageCalls between pairs of ranks, which the other ranks of a communicator do not take part in.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/failing.h"
#include "runtime/communicator/footing.h"
#include "runtime/host/batch.h"

namespace lanecast {

/// By whoever is in the gate.
class MessageCalls {
 public:
  explicit MessageCalls(const Footing& footing);

  /// Throws UsageError, before any data moves, and where the communicator has failed.
  void check_all(std::span<const Transfer> transfers) const;
  /// In the caller's thread, to their end, where no collective is under way.
  void run_now(std::span<const Transfer> transfers, const Interrupt& interrupt);
  /// Posts them. Somebody has to advance() them then.
  std::shared_ptr<Work> start(std::span<const Transfer> transfers, double timeout_s);
  /// Has one from `peer` come? Never blocks.
  bool arrived(int peer, int tag);

  /// Are there none that were started? Some may be done.
  bool empty() const { return batches_.empty(); }
  bool under_way() const;
  /// Moves them where no collective does; true when something moved.
  bool advance();
  /// Of those that have not moved. alone: no collective is under way.
  void look_after(bool alone);
  /// What keeps the messages of this work, for people; none where they are not here, or done.
  std::optional<std::string> waits_for(const Work& work) const;

 private:
  void post(Batch& batch);
  void end_all(const std::exception_ptr& error);

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::chrono::steady_clock::time_point last_look_;
};

}  // namespace lanecast
