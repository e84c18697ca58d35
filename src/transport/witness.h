// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other beside messages: which calls they make, whom they wait for and for what, and why one gives
// up. It serves those who wait, and words of errors; no message depends on it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/call_note.h"
#include "base/failure.h"
#include "base/want.h"

namespace lanecast {

/// What is known against a peer that can no longer answer.
struct Loss {
  std::string what;   // "process 4711 has ended"; empty: nothing
  Failure cause;      // why the peer has given up, where it has said so
  bool left = false;  // of its own accord, with all that it had to do done

  explicit operator bool() const { return !what.empty(); }
  std::string str() const { return cause ? what + ": " + cause.text : what; }
};

/// Whom a peer waits for, as it has last said.
struct Waiting {
  std::vector<int> peers;
  double age_s = std::numeric_limits<double>::infinity();  // since then; never: infinite, or since it was first asked
};

/// One transport's: of the peers that it reaches. Called by whoever may call the transport. What a witness cannot know
/// it leaves at the default.
class Witness {
 public:
  virtual ~Witness() = default;

  /// Of the ranks that the transport reaches, those whose messages it carries: no others look here for why this rank
  /// gives up.
  virtual void carries(std::span<const int> /*peers*/) {}

  /// What is known against `peer`, where all has been taken that it did before. Throws nothing about messages.
  virtual Loss lost(int /*peer*/) { return {}; }
  /// A peer that has given up and said so, as far as it is known here without asking. For calls that wait for nobody,
  /// or for others: asked every few milliseconds at most.
  virtual std::optional<int> given_up() { return {}; }
  /// After Transport::abort() does a peer's lost() know the cause from its next call on, without anything on its way?
  virtual bool tells_at_once() const { return false; }
  /// After Transport::abort(): brings on its way what peers that were busy have not been told yet. False when nothing
  /// is left.
  virtual bool tell() { return false; }

  /// Lets the peers know which call this rank makes; costs no more than some stores.
  virtual void publish(const CallNote& /*note*/) {}
  /// What `peer` has published about its call of that number. May ask the peer, and know the answer only later.
  virtual std::optional<CallNote> published(int /*peer*/, std::uint64_t /*sequence*/) { return {}; }

  /// Lets the peers know whom this rank waits for: again and again as long as it does, in milliseconds. may_be_asked:
  /// it has waited so long that any rank may ask for it, also one that waits for it through others.
  virtual void publish_wait(std::span<const int> /*peers*/, bool /*may_be_asked*/) {}
  /// What `peer` has said; nothing where the transport does not know. May ask the peer, and know the answer only later:
  /// so often that the answer of one that waits is never as old as `silent_s`.
  virtual std::optional<Waiting> waiting(int /*peer*/, double /*silent_s*/) { return {}; }

  /// Lets `peer` know what this rank wants of it: again and again as long as it waits for that, in milliseconds.
  virtual void want(int /*peer*/, const Want& /*want*/) {}
  /// What `peer` has last let this rank know; it may have got it since. Nothing where the transport does not know.
  virtual std::optional<Want> wanted(int /*peer*/) { return {}; }
};

}  // namespace lanecast
