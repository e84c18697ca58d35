// SPDX-License-Identifier: Apache-2.0
// How many messages a rank has posted to and from each peer under each tag. Equal tags match in the order of posting,
// so two ranks' counts tell whether a message has its counterpart, also while it is on its way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/mix.h"
#include "runtime/request/transfer.h"

namespace lanecast {

class MessageCounts {
 public:
  /// One more is posted: its number, from 0. Nothing where the tags were too many to count.
  std::optional<std::uint64_t> add(const Transfer& transfer) {
    if (counts_.size() >= kMostTags) return {};
    return counts_[{transfer.peer, static_cast<std::uint64_t>(transfer.tag)}][static_cast<std::size_t>(transfer.way)]++;
  }

  /// Posted so far; nothing as above.
  std::optional<std::uint64_t> posted(Transfer::Way way, int peer, std::uint64_t tag) const {
    if (counts_.size() >= kMostTags) return {};
    const auto found = counts_.find({peer, tag});
    return found == counts_.end() ? 0 : found->second[static_cast<std::size_t>(way)];
  }

 private:
  /// A program may have another tag for each message, and who gives up counting tells no peer anything wrong.
  static constexpr std::size_t kMostTags = 4096;

  struct MessageLine {
    int peer;
    std::uint64_t tag;
    friend bool operator==(const MessageLine&, const MessageLine&) = default;
  };
  struct Hash {
    // One after the other: mix() takes equal bits of both out, as those of peer 1 under tag 0 and of peer 0 under 1.
    std::size_t operator()(const MessageLine& line) const {
      return mix(mix(0, static_cast<std::uint64_t>(line.peer)), line.tag);
    }
  };

  std::unordered_map<MessageLine, std::array<std::uint64_t, 2>, Hash> counts_;  // of sends, of receives
};

}  // namespace lanecast
