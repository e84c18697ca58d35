// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outbox.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lanecast::shm {

namespace {

constexpr std::size_t kPage = 4096;

std::size_t place_bytes(const Layout& layout) { return std::bit_ceil(layout.piece_bytes); }

std::size_t control_bytes(const Layout& layout) {
  return (layout.outbox_places * sizeof(PlaceControl) + kPage - 1) / kPage * kPage;
}

}  // namespace

std::size_t outbox_bytes(const Layout& layout) {
  return (control_bytes(layout) + layout.outbox_places * place_bytes(layout) + kPage - 1) / kPage * kPage;
}

OutboxMemory outbox_at(std::byte* memory, const Layout& layout) {
  return {{reinterpret_cast<PlaceControl*>(memory), layout.outbox_places},
          memory + control_bytes(layout),
          place_bytes(layout)};
}

Outbox::ContentIndex Outbox::enter(const Message& message) {
  if (!has_places()) return kNone;
  ContentIndex unused = kNone;
  for (ContentIndex k = 0; k < contents_.size(); ++k) {
    Content& content = contents_[k];
    if (content.id == 0) {
      unused = k;
    } else if (content.bytes == message.bytes && std::ranges::equal(content.memory, message.memory)) {
      ++content.messages;
      return k;
    }
  }
  if (unused == kNone) {
    if (contents_.size() == kContents) return kNone;
    unused = static_cast<ContentIndex>(contents_.size());
    contents_.emplace_back();
  }
  Content& content = contents_[unused];
  content.memory.assign(message.memory.begin(), message.memory.end());
  content.bytes = message.bytes;
  content.id = ++last_id_;
  content.messages = 1;
  content.front = 0;
  return unused;
}

void Outbox::leave(ContentIndex content) {
  if (content == kNone) return;
  Content& left = contents_[content];
  if (--left.messages > 0) return;
  for (Piece& piece : pieces_) {
    if (piece.content == left.id) piece.owed = 0;
  }
  left.id = 0;
}

std::optional<std::uint32_t> Outbox::find(ContentIndex content, std::size_t offset) const {
  if (content == kNone || !is_past(content, offset)) return {};
  const auto is_it = [&](const Piece& piece) {
    return piece.content == contents_[content].id && piece.offset == offset;
  };
  const auto found = std::ranges::find_if(pieces_, is_it);
  if (found == pieces_.end()) return {};
  return static_cast<std::uint32_t>(found - pieces_.begin());
}

std::optional<std::uint32_t> Outbox::put(ContentIndex content, std::size_t offset, SpanCursor& from,
                                         std::size_t bytes) {
  const auto place = free_place();
  if (!place) return {};
  copy_in_.gather(from, memory_.at(*place), bytes);
  Content& of = contents_[content];
  Piece& piece = pieces_[*place];
  piece.content = of.id;
  piece.offset = offset;
  piece.owed = of.messages;
  of.front = offset + bytes;
  return place;
}

void Outbox::give(std::uint32_t place) {
  Piece& piece = pieces_[place];
  ++piece.given;
  if (piece.owed > 0) --piece.owed;
}

void Outbox::pass(ContentIndex content, std::size_t offset) {
  contents_[content].front = std::max(contents_[content].front, offset + 1);
}

std::optional<std::uint32_t> Outbox::free_place() {
  const auto after = [&](std::uint32_t place) { return static_cast<std::uint32_t>((place + 1) % pieces_.size()); };
  // Acquire: pairs with the release in Incoming::take_piece(); the receivers' loads come before our next stores.
  const auto is_free = [&](std::uint32_t place) {
    const Piece& piece = pieces_[place];
    return piece.owed == 0 && memory_.controls[place].taken.load(std::memory_order_acquire) == piece.given;
  };
  if (is_free(oldest_)) return std::exchange(oldest_, after(oldest_));
  // A receiver that does not come holds the oldest. Only one more is looked at: receivers are writing all of these
  // lines.
  probe_ = after(probe_);
  if (is_free(probe_)) return probe_;
  return {};
}

}  // namespace lanecast::shm
