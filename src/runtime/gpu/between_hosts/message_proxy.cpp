// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/message_proxy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/mix.h"

namespace lanecast {

std::vector<int> MessageProxy::awaited_peers() const { return on_hold() ? std::vector<int>{} : std::vector{peer_}; }

void MessageProxy::begin(std::size_t bytes) {
  message_ = MessageInParts{bytes, gpu::carried_message(0, bytes).pieces, 0};
}

MessageProxy::PostedPart& MessageProxy::add_frame() {
  PostedPart& part = posted_.emplace_back();
  part.frame.bytes = part.message_bytes = message_.bytes;
  part.first = next_;
  part.is_frame = true;
  part.span = {reinterpret_cast<std::byte*>(&part.frame), sizeof part.frame};
  if (message_.in_frame()) {
    part.pieces = message_.posted = message_.pieces;
    next_ += part.pieces;
  }
  part.is_last = message_.in_frame();
  return part;
}

MessageProxy::PostedPart& MessageProxy::add_parcel(const gpu::ParcelOfPieces& parcel) {
  PostedPart& part = posted_.emplace_back();
  part.message_bytes = message_.bytes;
  part.first = next_;
  part.pieces = parcel.pieces;
  const std::size_t before = parcel.first * gpu::kCarriedSlotBytes;
  part.span = {half_.at(next_, half_.on_host(message_.bytes)),
               std::min<std::size_t>(message_.bytes - before, parcel.pieces * gpu::kCarriedSlotBytes)};
  next_ += parcel.pieces;
  message_.posted += parcel.pieces;
  part.is_last = message_.posted == message_.pieces;
  return part;
}

void MessageProxy::post(PostedPart& part, Transfer::Way way) {
  Transport& transport = router_.to(peer_);
  part.memory = {&part.span, 1};
  part.bytes = part.span.bytes;
  part.peer = peer_;
  // Parcels of messages of other lengths must not meet, which the frames tell.
  part.tag = gpu_message_tag(transport, part.is_frame ? 0 : 1 + mix(0, part.message_bytes) % (kGpuMessageTags - 1));
  if (part.is_last) message_ = {};
  const Router::Visit visit(router_, transport, peer_);
  if (way == Transfer::Way::send)
    transport.post_send(part);
  else
    transport.post_recv(part);
}

std::string MessageProxy::describe_front(Transfer::Way way) const {
  if (posted_.empty()) return "messages of GPUs";
  const bool sends = way == Transfer::Way::send;
  return std::string(sends ? "send of " : "recv of ") + std::to_string(posted_.front().message_bytes) + " bytes " +
         (sends ? "to" : "from") + " rank " + std::to_string(peer_) + " of a GPU's memory";
}

bool SendingProxy::has_next() const {
  return ChannelHalf::heard(half_.flags->arrived[next_ % gpu::kCarriedSlots].piece) == next_ + 1 ||
         gpu::is_inlined(ChannelHalf::heard(inlined(next_)[0]), next_);
}

std::optional<MessageProxy::MessageFrame> SendingProxy::inline_frame() const {
  const auto words = inlined(next_);
  const gpu::u64 first = ChannelHalf::heard(words[0]);
  if (!gpu::is_inlined(first, next_)) return {};
  MessageFrame frame{};
  frame.bytes = static_cast<std::uint32_t>(first);
  for (std::uint32_t k = 1; k < gpu::inline_words(frame.bytes); ++k) {
    const gpu::u64 word = ChannelHalf::heard(words[k]);
    if (!gpu::is_inlined(word, next_)) return {};
    const auto content = static_cast<std::uint32_t>(word);
    std::memcpy(frame.content.data() + (k - 1) * sizeof content, &content, sizeof content);
  }
  return frame;
}

bool SendingProxy::is_known_to_be_under_way() const {
  return !posted_.empty() || message_.pieces != 0 || (follows_device_ ? has_next() : through_ < enqueued_);
}

bool SendingProxy::post_ready() {
  bool moved = false;
  for (; posted_.size() < kMostPosts; moved = true) {
    if (message_.pieces == 0) {
      const std::optional<MessageFrame> whole = inline_frame();
      const gpu::SlotNews& news = half_.flags->arrived[next_ % gpu::kCarriedSlots];
      if (!whole && ChannelHalf::heard(news.piece) != next_ + 1) break;
      begin(whole ? whole->bytes : news.bytes);
      PostedPart& frame = add_frame();
      if (whole) {
        frame.frame = *whole;
        ChannelHalf::tell(half_.flags->emptied[frame.first % gpu::kCarriedSlots], frame.first + 1);
      }
      post(frame, Transfer::Way::send);
      continue;
    }
    const gpu::ParcelOfPieces parcel = next_parcel();
    for (std::uint64_t at = next_ + ready_; ready_ < parcel.pieces; ++ready_, ++at)
      if (ChannelHalf::heard(half_.flags->arrived[at % gpu::kCarriedSlots].piece) != at + 1) return moved;
    ready_ = 0;
    post(add_parcel(parcel), Transfer::Way::send);
  }
  return moved;
}

bool SendingProxy::tell_left() {
  bool moved = false;
  for (; !posted_.empty() && posted_.front().done; moved = true) {
    const PostedPart& part = posted_.front();
    for (std::uint64_t at = part.first; !part.is_frame && at < part.first + part.pieces; ++at)
      ChannelHalf::tell(half_.flags->emptied[at % gpu::kCarriedSlots], at + 1);
    if (part.is_last) ++through_;
    posted_.pop_front();
  }
  return moved;
}

bool SendingProxy::advance() {
  const bool left = tell_left();
  return post_ready() || left;
}

void ReceivingProxy::expect(std::size_t bytes) {
  if (follows_device_) return;
  lengths_.push_back(bytes);
  ++known_;
  ++enqueued_;
}

bool ReceivingProxy::is_known_to_be_under_way() const {
  const auto& next = half_.flags->wanted[wanted_ % gpu::kWanted];
  return through_ < known_ || (follows_device_ && ChannelHalf::heard(next.piece) == wanted_ + 1);
}

void ReceivingProxy::hear_wanted() {
  for (;; ++wanted_) {
    const gpu::SlotNews& next = half_.flags->wanted[wanted_ % gpu::kWanted];
    if (ChannelHalf::heard(next.piece) != wanted_ + 1) return;
    if (wanted_ < known_) continue;  // the host has told of it
    lengths_.push_back(next.bytes);
    ++known_;
  }
}

bool ReceivingProxy::has_room(std::uint32_t pieces) {
  const std::uint32_t depth = half_.depth[half_.on_host(message_.bytes) ? 1 : 0];
  const auto taken = [&](std::uint64_t piece) {
    return ChannelHalf::heard(half_.flags->emptied[piece % gpu::kCarriedSlots]) > piece;
  };
  // Blocks of a kernel take pieces of several messages in no order, so what was there before the last one counts, too.
  for (std::uint64_t at = next_ + free_; free_ < pieces; ++free_, ++at)
    for (std::uint64_t before = depth; before <= gpu::kCarriedSlots && before <= at; before += depth)
      if (!taken(at - before)) return false;
  free_ = 0;
  return true;
}

bool ReceivingProxy::call_for_more() {
  bool moved = false;
  for (; posted_.size() < kMostPosts; moved = true) {
    const bool is_new = message_.pieces == 0;
    if (is_new && lengths_.empty()) break;
    if (is_new) begin(lengths_.front());
    const gpu::ParcelOfPieces parcel = is_new ? gpu::ParcelOfPieces{0, 1} : next_parcel();
    if (!has_room(parcel.pieces)) {
      if (is_new) message_ = {};
      break;
    }
    if (is_new) lengths_.pop_front();
    post(is_new ? add_frame() : add_parcel(parcel), Transfer::Way::receive);
  }
  return moved;
}

void ReceivingProxy::check(const PostedPart& frame) const {
  if (frame.frame.bytes == frame.message_bytes) return;
  throw MismatchError("rank " + std::to_string(rank_) + ": a recv of " + std::to_string(frame.message_bytes) +
                      " bytes from rank " + std::to_string(peer_) + " of a GPU's memory met a send of " +
                      std::to_string(frame.frame.bytes) +
                      " bytes; messages between two ranks of GPUs match in the order of the calls, whatever else lies "
                      "between, and have to be of equal size");
}

void ReceivingProxy::tell_inline(const PostedPart& frame) {
  const auto words = inlined(frame.first);
  const gpu::u64 stamp = gpu::inline_stamp(frame.first);
  for (std::uint32_t k = 1; k < gpu::inline_words(frame.message_bytes); ++k) {
    std::uint32_t content = 0;
    std::memcpy(&content, frame.frame.content.data() + (k - 1) * sizeof content, sizeof content);
    ChannelHalf::tell(words[k], stamp | content);
  }
  ChannelHalf::tell(words[0], stamp | frame.message_bytes);
}

bool ReceivingProxy::tell_come() {
  bool moved = false;
  for (; !posted_.empty() && posted_.front().done; moved = true) {
    const PostedPart& part = posted_.front();
    if (part.is_frame) check(part);
    if (part.is_frame && part.is_last) tell_inline(part);
    for (std::uint64_t at = part.first; !part.is_frame && at < part.first + part.pieces; ++at) {
      gpu::SlotNews& news = half_.flags->arrived[at % gpu::kCarriedSlots];
      news.bytes = part.message_bytes;
      ChannelHalf::tell(news.piece, at + 1);
    }
    if (part.is_last) ++through_;
    posted_.pop_front();
  }
  return moved;
}

bool ReceivingProxy::advance() {
  hear_wanted();
  const bool come = tell_come();
  return call_for_more() || come;
}

}  // namespace lanecast
