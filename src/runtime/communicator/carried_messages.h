// SPDX-License-Identifier: Apache-2.0
// Messages of a GPU's memory to and from ranks of other hosts, as they are moved: in no order with the collectives, nor
// among pairs of ranks.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/communicator/failing.h"
#include "runtime/communicator/footing.h"

namespace lanecast {

class MessageProxy;
class MessagesBetweenHosts;

/// By whoever is in the gate.
class CarriedMessages {
 public:
  explicit CarriedMessages(const Footing& footing);

  /// From here on, for good: the first of them comes. raise_fault: throws what kernels have met.
  void open(MessagesBetweenHosts& messages, std::function<void()> raise_fault);
  bool is_open() const { return messages_ != nullptr; }

  /// Moves all that are under way; true when something did. Fails the communicator.
  bool advance();
  /// Is none under way, as far as the host and the device have told?
  bool empty() const;
  /// May a graph replay one at any time?
  bool listens() const;
  /// Does the device alone say what graphs replay?
  bool follows_device() const;

 private:
  bool move();
  void look_after(MessageProxy& proxy, bool moved, std::chrono::steady_clock::time_point now, bool looks) const;

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  MessagesBetweenHosts* messages_ = nullptr;
  std::function<void()> raise_fault_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace lanecast
