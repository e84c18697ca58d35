// SPDX-License-Identifier: Apache-2.0
// A call under way, as whoever moves it and waits for it sees it: a collective or a batch of messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/want.h"

namespace lanecast {

/// When a call gives up: when this process has run for so long since the call has last made progress.
struct Deadline {
  std::chrono::steady_clock::time_point last_progress;
  double timeout_s = 0;
};

/// Can a call not end before a peer has begun it?
enum class Needs : std::uint8_t {
  no,       // nobody begins it: messages between two ranks
  perhaps,  // its plan does not say: a send may end before its message is received
  yes,
};

class UnderWay {
 public:
  virtual ~UnderWay() = default;

  /// Moves what can be moved; true when something did. Throws what the transports throw.
  virtual bool advance() = 0;
  virtual bool finished() const = 0;

  /// The collective and its arguments, for people; empty for messages between two ranks.
  virtual std::string_view title() const { return {}; }
  /// What has been started and is not done, for people. peer: only what waits for it; -1: anything.
  virtual std::string waiting_for(int peer) const = 0;
  /// Peers that the unfinished parts wait for, each once.
  virtual std::vector<int> awaited_peers() const = 0;
  /// Is one of those parts a message to or from this peer, rather than a library's collective?
  virtual bool awaits_message(int peer) const = 0;
  /// What it wants of that peer, where the peer alone can tell whether it will ever get that; without the call's
  /// number.
  virtual std::optional<Want> want(int /*peer*/) const { return {}; }
  virtual Needs needs(int /*peer*/) const { return Needs::no; }
  /// Of a call in the order of a device its number there; it has none among the ranks' other calls.
  virtual std::optional<std::uint32_t> launch() const { return {}; }
  /// Is all that it waits for now up to this process, however long that takes? Then no deadline runs.
  virtual bool on_hold() const { return false; }
};

}  // namespace lanecast
