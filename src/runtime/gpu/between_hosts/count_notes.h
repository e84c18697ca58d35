// SPDX-License-Identifier: Apache-2.0
// Counts that each rank knows for itself: before anything moves, two ranks tell each other what they give and expect.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/bound/own_counts.h"
#include "runtime/wires/router.h"

namespace lanecast {

class CountNotes {
 public:
  /// peers: with whom the call has messages.
  CountNotes(Router& router, int rank, std::vector<int> peers);
  CountNotes(const CountNotes&) = delete;
  CountNotes& operator=(const CountNotes&) = delete;

  /// Once for each launch, when all before are done. tag_to: of a note to or from a transport's peer.
  void begin(const OwnCounts& own, const std::function<std::uint64_t(const Transport&)>& tag_to, std::uint32_t stamp);
  bool heard_from(int peer) const;
  bool done() const { return under_way_ == 0; }
  /// Whose note has not come.
  std::vector<int> silent() const;
  /// Throws MismatchError where a peer gives or expects something else than this rank; call: in words.
  void compare(const std::string& call) const;

 private:
  /// What one of the two gives the other, and what it expects of it, in elements.
  struct GivenAndTaken {
    std::uint64_t gives = 0, takes = 0;
  };
  struct CountNote final : Posted {
    void arrived() override {
      is_done = true;
      --owner->under_way_;
    }
    CountNotes* owner = nullptr;
    GivenAndTaken content;
    Span span;
    bool is_done = false;
  };
  struct NotedPair {
    int peer = -1;
    CountNote sent, received;
  };

  Router& router_;
  int rank_;
  std::vector<NotedPair> pairs_;
  std::size_t under_way_ = 0;  // notes
};

}  // namespace lanecast
