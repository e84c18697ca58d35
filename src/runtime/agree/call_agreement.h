// SPDX-License-Identifier: Apache-2.0
// Do all ranks make the same calls in the same order? Each call has a signature, and each rank a chain of them.
//
// Every message carries a stamp of its sender's chain, so nothing is ever received from a call that differs. A rank
// that waits compares its call with those of the peers it waits for, which finds calls whose messages never meet.
//
// It also tells them what it wants of them, where they alone can know that it will never come: counts that each rank
// knows only for itself, and messages between the two.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/running_time.h"
#include "runtime/agree/message_counts.h"
#include "runtime/bound/own_counts.h"
#include "runtime/bound/signature.h"
#include "runtime/watch/under_way.h"
#include "runtime/wires/router.h"
#include "transport/call_board.h"

namespace lanecast {

class CallAgreement {
 public:
  CallAgreement(Router& router, int rank, std::uint64_t communicator, bool on);

  /// A call begins on this rank. Returns the stamp of its messages.
  std::uint32_t begin(std::uint64_t sequence, const Signature& signature);
  /// The same of a call in the order of the device, which has none among the others: ranks compare their stamps alone.
  std::uint32_t begin_launched(const Signature& signature);
  /// Throws MismatchError, with both calls, where one of `peers` is known to have made another call than this rank; and
  /// where one is so far ahead that it cannot tell any more, once nothing has moved for so long that nothing will.
  void compare(std::span<const int> peers, std::chrono::steady_clock::duration waited = {}) const;

  /// A wait of this rank in a call.
  struct Wait {
    std::span<const int> awaited;
    std::chrono::steady_clock::time_point since;
    const RunningTime& ran;
    bool blocked = false;  // this thread is in the call until it ends, and no other can make one meanwhile
  };
  /// Lets the awaited peers know what `call` wants of them.
  void tell_wants(const UnderWay& call, const Wait& wait);
  /// Throws MismatchError, with both calls, where a peer waits for what this rank will never do.
  void refuse_unmet_wants(const UnderWay& call, const Wait& wait);
  /// The messages between two ranks, as they are posted.
  MessageCounts& messages() { return messages_; }

 private:
  /// A call with own counts, until as many others have begun as peers can find on a board.
  struct Counted {
    std::uint64_t sequence = 0, chain = 0;
    std::shared_ptr<const OwnCounts> counts;
  };

  /// A call of this rank and the peer's of the same number.
  struct Differing {
    CallNote mine, theirs;
    bool is_first;  // all before it are equal
  };

  [[noreturn]] void refuse(int peer, const Differing& call) const;
  [[noreturn]] void refuse_forgotten(int peer, const CallNote& mine, const CallNote& theirs) const;
  /// What each of the two calls.
  std::string both(int peer, const CallNote& mine, const CallNote& theirs) const;
  /// This rank's words go before the peer's where its rank is lower, so that both tell the same.
  std::string in_order(int peer, const std::string& mine, const std::string& theirs) const;
  void compare_counts(int peer, const Want& want) const;
  /// Does the peer want a message that this rank has not posted?
  bool lacks_message(int peer, const Want& want) const;
  /// The message that the peer wants, in its words.
  std::string theirs(int peer, const Want& want) const;
  [[noreturn]] void refuse_message(int peer, const Want& want) const;
  /// Is the peer blocked until this rank posts that message? A receive is, and a send once it has been seen to last,
  /// since it may also end by being buffered.
  bool blocks(int peer, const Want& want, const Wait& wait);
  /// Has the peer looked around often enough and still wanted the same, while this rank moved nothing?
  bool lasts(int peer, const Want& want, const Wait& wait);
  /// The longest row of ranks whose last one is blocked until this rank posts a message.
  Row behind(const Wait& wait);
  /// Does a row that needs this rank lead around to it?
  bool closes_circle(const Row& row) const;
  [[noreturn]] void refuse_circle(int peer, const Want& want, const UnderWay& call) const;
  /// Do `call` and the peer's wait for that message each need the other to end first? A call whose plan does not say
  /// that it needs the peer may need only that a send of its own is taken: this, too, has to be seen to last.
  bool never_ends(const UnderWay& call, int peer, const Want& want, const Wait& wait);

  Router& router_;
  int rank_;
  std::uint64_t communicator_;
  bool on_;
  std::uint64_t chain_ = 0, launched_chain_ = 0;
  std::uint64_t sequence_ = 0;
  CallBoard mine_;
  std::array<Counted, CallBoard::kSlots> counted_;
  MessageCounts messages_;
  std::uint64_t looks_ = 0;  // of this rank, for Want
  struct Seen {
    std::chrono::steady_clock::time_point since;  // of this rank's wait
    Want last;
    int times = 0;  // that the peer has looked around and still wanted it, as far as this rank has seen
  };
  std::map<int, Seen> seen_;  // by peer that wants a message
};

}  // namespace lanecast
