// SPDX-License-Identifier: Apache-2.0
// The host's half of messages between two ranks of different hosts: a proxy for each direction, which knows no call,
// only the pieces that kernels have put and the lengths that they want. It makes no call of the GPU's driver.
//
// A message goes as a frame of fixed length, which says how long it is and holds a short one, and then as parcels. So
// both ends post what the other does without a word before, and a receiver finds out that lengths differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/gpu/between_hosts/channel_memory.h"
#include "runtime/request/transfer.h"
#include "runtime/watch/under_way.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// By whoever is in the gate.
class MessageProxy : public UnderWay {
 public:
  struct TwoRanks {
    int own, peer;
  };
  MessageProxy(Router& router, const ChannelHalf& half, TwoRanks ranks)
      : router_(router), half_(half), peer_(ranks.peer), rank_(ranks.own) {}
  MessageProxy(const MessageProxy&) = delete;
  MessageProxy& operator=(const MessageProxy&) = delete;

  /// Messages that the host has enqueued, and that are not through. Of a channel that a graph has captured messages of,
  /// only those that are known of: by what kernels have said.
  bool finished() const override { return !is_known_to_be_under_way(); }
  /// From now on kernels alone say what comes: a graph has captured messages, and nobody tells of its replays.
  void follow_device() { follows_device_ = true; }
  bool follows_device() const { return follows_device_; }

  std::vector<int> awaited_peers() const override;
  bool awaits_message(int /*peer*/) const override { return true; }

  /// When it gives up.
  Deadline deadline;

 protected:
  static constexpr std::size_t kInFrame = gpu::kInlineBytes;  // bytes of a message that are in it
  static constexpr std::size_t kMostPosts = 64;

  struct MessageFrame {
    std::uint64_t bytes;  // of the whole message
    std::array<std::byte, (kInFrame + 7) / 8 * 8> content;
  };
  /// A frame or a parcel under way.
  struct PostedPart final : Posted {
    void arrived() override { done = true; }
    Span span;
    MessageFrame frame;
    std::size_t message_bytes = 0;
    std::uint64_t first = 0;   // piece of the channel
    std::uint32_t pieces = 0;  // 0: the frame of a message that has parcels
    bool is_frame = false, is_last = false, done = false;
  };
  /// The message whose parts are posted now.
  struct MessageInParts {
    std::size_t bytes = 0;
    std::uint32_t pieces = 0, posted = 0;  // no pieces: there is no message
    bool in_frame() const { return bytes <= kInFrame; }
  };
  virtual bool is_known_to_be_under_way() const = 0;
  /// Of a piece, see gpu::CarriedFlags::inlined.
  std::span<gpu::u64> inlined(std::uint64_t piece) const { return half_.flags->inlined[piece % gpu::kCarriedSlots]; }
  /// The next message has begun to be posted.
  void begin(std::size_t bytes);
  PostedPart& add_frame();
  PostedPart& add_parcel(const gpu::ParcelOfPieces& parcel);
  gpu::ParcelOfPieces next_parcel() const { return gpu::parcel_with(message_.posted, message_.pieces); }
  void post(PostedPart& part, Transfer::Way way);
  std::string describe_front(Transfer::Way way) const;

  Router& router_;
  ChannelHalf half_;
  int peer_, rank_;
  std::deque<PostedPart> posted_;  // which stay where they are
  MessageInParts message_;
  std::uint64_t next_ = 0;      // piece of the channel, of what is posted next
  std::uint64_t through_ = 0;   // messages
  std::uint64_t enqueued_ = 0;  // by the host, as long as no graph has captured any
  bool follows_device_ = false;
};

class SendingProxy final : public MessageProxy {
 public:
  using MessageProxy::MessageProxy;

  /// The host has enqueued one.
  void expect() { ++enqueued_; }
  bool advance() override;
  std::string waiting_for(int /*peer*/) const override { return describe_front(Transfer::Way::send); }
  /// Nothing has been put that is on its way.
  bool on_hold() const override { return posted_.empty(); }

 private:
  bool is_known_to_be_under_way() const override;
  bool has_next() const;
  /// The next message, which is inline; none where not all of its words are there.
  std::optional<MessageFrame> inline_frame() const;
  bool post_ready();
  bool tell_left();

  std::uint32_t ready_ = 0;  // pieces of the next parcel that have been put, without a gap
};

class ReceivingProxy final : public MessageProxy {
 public:
  using MessageProxy::MessageProxy;

  /// The host has enqueued one, so it is called for before the device comes to it.
  void expect(std::size_t bytes);
  bool advance() override;
  std::string waiting_for(int /*peer*/) const override { return describe_front(Transfer::Way::receive); }
  /// No kernel has come to what is called for.
  bool on_hold() const override { return posted_.empty() || wanted_ <= through_; }

 private:
  bool is_known_to_be_under_way() const override;
  void hear_wanted();
  bool has_room(std::uint32_t pieces);
  bool call_for_more();
  void tell_inline(const PostedPart& frame);
  bool tell_come();
  /// Throws MismatchError where the two ranks' lengths differ.
  void check(const PostedPart& frame) const;

  std::deque<std::size_t> lengths_;  // of messages that are known of, and not called for
  std::uint64_t known_ = 0;          // messages, so far
  std::uint64_t wanted_ = 0;         // messages to which kernels have come
  std::uint32_t free_ = 0;           // slots of the next parcel that are empty, without a gap
};

}  // namespace lanecast
