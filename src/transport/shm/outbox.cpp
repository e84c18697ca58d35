// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outbox.h"

#include <algorithm>
#include <utility>

namespace lanecast::shm {

namespace {

constexpr std::size_t kPage = 4096;

std::size_t control_bytes(const Layout& layout) {
  return (layout.outbox_places * sizeof(PlaceControl) + kPage - 1) / kPage * kPage;
}

std::size_t place_bytes(const Layout& layout) { return layout.fragment_bytes + kLine; }  // a power of two

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
  content.has_pieces = false;
  return unused;
}

void Outbox::leave(ContentIndex content) {
  if (content != kNone && --contents_[content].messages == 0) contents_[content].id = 0;
}

std::optional<std::uint32_t> Outbox::find(ContentIndex content, std::size_t offset) const {
  if (content == kNone || !contents_[content].has_pieces) return {};
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
  const std::int64_t begin = clock_ns(bytes);
  copy_in_.gather(from, memory_.at(*place), bytes);
  const auto ns = static_cast<double>(clock_ns(bytes) - begin);
  contents_[content].has_pieces = true;
  Piece& piece = pieces_[*place];
  piece.content = contents_[content].id;
  piece.offset = offset;
  piece.copy_ns = ns / static_cast<double>(contents_[content].messages);
  return place;
}

double Outbox::give(std::uint32_t place) {
  ++pieces_[place].given;
  return pieces_[place].copy_ns;
}

std::optional<std::uint32_t> Outbox::free_place() {
  const auto after = [&](std::uint32_t place) { return static_cast<std::uint32_t>((place + 1) % pieces_.size()); };
  // Acquire: pairs with the release in Incoming::take_piece(); the receivers' loads come before our next stores.
  const auto is_free = [&](std::uint32_t place) {
    return memory_.controls[place].taken.load(std::memory_order_acquire) == pieces_[place].given;
  };
  if (is_free(oldest_)) return std::exchange(oldest_, after(oldest_));
  // A receiver that does not come holds the oldest. Only one more is looked at: receivers are writing all of these
  // lines.
  probe_ = after(probe_);
  if (is_free(probe_)) return probe_;
  return {};
}

}  // namespace lanecast::shm
