// SPDX-License-Identifier: Apache-2.0
// How a rank leaves its peers without loss of what it has sent last.
//
// TCP resets a connection that is closed with something unread, or written to after its end. What the other side has
// not read by then goes: UCX looks no further when it could not send. So who leaves says so to everybody to whom it has
// sent anything, as its last word, and waits until they have read that far and answered. Whoever hears of it sends that
// rank no more notes.
#pragma once

#include <vector>

namespace lanecast::ucx {

class Worker;

/// Of one worker; called by whoever may call that.
class Farewells {
 public:
  explicit Farewells(Worker& worker);
  Farewells(const Farewells&) = delete;
  Farewells& operator=(const Farewells&) = delete;

  /// Something is sent to that peer: it is to hear when this rank leaves.
  void owe(int peer) { peers_.at(peer).owed = true; }
  /// Has the peer said so?
  bool has_left(int peer) const { return peers_.at(peer).left; }

  /// Answers those that were heard before: by now the caller has handed on what came ahead of them.
  void answer() {
    if (!heard_.empty()) answer_heard();
  }
  /// Leaves. Returns when all peers have answered, have left themselves or are lost, and after a moment in any case;
  /// with nothing unread, as far as it has come.
  void say();

 private:
  struct Peer {
    bool owed = false, said = false, answered = false, left = false;
  };
  enum class FarewellWord : int { farewell, answer };
  struct FarewellHeader {
    int rank = -1;
    FarewellWord word{};
  };

  void answer_heard();
  void hear(const FarewellHeader& header);
  void send(int peer, FarewellWord word);

  Worker& worker_;
  std::vector<Peer> peers_;
  std::vector<int> heard_;  // and not answered yet
};

}  // namespace lanecast::ucx
