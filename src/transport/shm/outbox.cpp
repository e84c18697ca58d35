// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outbox.h"

#include <algorithm>
#include <utility>

namespace lanecast::shm {

namespace {

constexpr std::size_t kPage = 4096;

std::size_t control_bytes(const ShmLayout& layout) {
  return (layout.outbox_places * sizeof(PlaceControl) + kPage - 1) / kPage * kPage;
}

}  // namespace

std::size_t outbox_bytes(const ShmLayout& layout) {
  return (control_bytes(layout) + layout.outbox_places * kPlaceBytes + kPage - 1) / kPage * kPage;
}

OutboxMemory outbox_at(std::byte* begin, const ShmLayout& layout) {
  return {{reinterpret_cast<PlaceControl*>(begin), layout.outbox_places}, begin + control_bytes(layout)};
}

OutboxMemory outbox_at(const Mapping& memory, std::size_t offset, const ShmLayout& layout) {
  OutboxMemory outbox = outbox_at(memory.data() + offset, layout);
  outbox.memory = &memory;
  return outbox;
}

Outbox::Outbox(const OutboxMemory& memory) : memory_(memory), pieces_(memory.controls.size()) {
  for (std::uint32_t place = 0; place < pieces_.size(); ++place) pieces_[place].covered_by = place;
}

Outbox::ContentIndex Outbox::enter(const Message& message) {
  if (!has_places()) return kNone;  // of two ranks
  ContentIndex unused = kNone;
  for (ContentIndex k = 0; k < contents_.size(); ++k) {
    KeptContent& content = contents_[k];
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
  KeptContent& content = contents_[unused];
  content.memory.assign(message.memory.begin(), message.memory.end());
  content.bytes = message.bytes;
  content.id = ++last_id_;
  content.messages = 1;
  content.front = 0;
  return unused;
}

void Outbox::leave(ContentIndex content) {
  if (content == kNone) return;
  KeptContent& left = contents_[content];
  if (--left.messages > 0) return;
  for (PlacedPiece& piece : pieces_) {
    if (piece.content == left.id) piece.owed = 0;
  }
  left.id = 0;
}

std::optional<std::uint32_t> Outbox::find(ContentIndex content, std::size_t offset) const {
  if (content == kNone || !is_past(content, offset)) return {};
  const auto is_it = [&](const PlacedPiece& piece) {
    return piece.content == contents_[content].id && piece.offset == offset;
  };
  const auto found = std::ranges::find_if(pieces_, is_it);
  if (found == pieces_.end()) return {};
  return static_cast<std::uint32_t>(found - pieces_.begin());
}

std::optional<std::uint32_t> Outbox::put(ContentIndex content, std::size_t offset, SpanCursor& from,
                                         std::size_t bytes) {
  const auto place = copy(from, bytes, stores_);
  if (!place) return {};
  KeptContent& of = contents_[content];
  PlacedPiece& piece = pieces_[*place];
  piece.content = of.id;
  piece.offset = offset;
  piece.owed = of.messages;
  of.front = offset + bytes;
  return place;
}

std::optional<std::uint32_t> Outbox::put_alone(SpanCursor& from, std::size_t bytes, StoreChoice& stores) {
  const auto place = copy(from, bytes, stores);
  if (place) {
    pieces_[*place].content = 0;
    pieces_[*place].owed = 1;
  }
  return place;
}

std::optional<std::uint32_t> Outbox::copy(SpanCursor& from, std::size_t bytes, StoreChoice& stores) {
  if (memory_.memory && !controls_reserved_) {
    const auto controls = std::as_bytes(memory_.controls);
    memory_.memory->reserve(controls.data(), controls.size());
    controls_reserved_ = true;
  }
  const auto count = static_cast<std::uint32_t>((bytes + kPlaceBytes - 1) / kPlaceBytes);
  const auto first = free_places(count);
  if (!first) return {};
  for (std::uint32_t place = *first; place < *first + count; ++place) {
    PlacedPiece& piece = pieces_[place];
    pieces_[std::exchange(piece.covered_by, *first)].content = 0;
    if (memory_.memory && !piece.reserved) memory_.memory->reserve(memory_.at(place), kPlaceBytes);
    piece.reserved = true;
  }
  stores.write(bytes, [&](Stores suited) { from.gather(memory_.at(*first), bytes, suited); });
  return first;
}

void Outbox::give(std::uint32_t place) {
  PlacedPiece& piece = pieces_[place];
  ++piece.given;
  if (piece.owed > 0) --piece.owed;
}

void Outbox::pass(ContentIndex content, std::size_t offset) {
  if (content == kNone) return;
  contents_[content].front = std::max(contents_[content].front, offset + 1);
}

bool Outbox::are_free(std::uint32_t first, std::uint32_t count) const {
  // Acquire: pairs with the release in Incoming::take_piece(); the receivers' loads come before our next stores.
  const auto is_free = [&](std::uint32_t begin) {
    const PlacedPiece& piece = pieces_[begin];
    return piece.owed == 0 && memory_.controls[begin].taken.load(std::memory_order_acquire) == piece.given;
  };
  for (std::uint32_t place = first; place < first + count; ++place) {
    const std::uint32_t begin = pieces_[place].covered_by;
    if (place > first && begin == pieces_[place - 1].covered_by) continue;  // has just been looked at
    if (!is_free(begin)) return false;
  }
  return true;
}

std::optional<std::uint32_t> Outbox::free_places(std::uint32_t count) {
  const auto places = static_cast<std::uint32_t>(pieces_.size());
  const auto fitting = [&](std::uint32_t first) { return first + count <= places ? first : 0; };
  oldest_ = fitting(oldest_);
  if (are_free(oldest_, count)) return std::exchange(oldest_, (oldest_ + count) % places);
  // A receiver that does not come holds the oldest. Only one more is looked at: receivers are writing all of these
  // lines.
  probe_ = fitting((probe_ + 1) % places);
  if (are_free(probe_, count)) return probe_;
  return {};
}

}  // namespace lanecast::shm
