// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outbox.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

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

void Outbox::enter(const Message& message) {
  if (!has_places()) return;
  Content* unused = nullptr;
  for (Content& content : contents_) {
    if (content.id == 0)
      unused = &content;
    else if (std::ranges::equal(content.memory, message.memory))
      return void(++content.messages);
  }
  if (!unused) unused = &contents_.emplace_back();
  unused->memory.assign(message.memory.begin(), message.memory.end());
  unused->id = ++last_id_;
  unused->messages = 1;
  unused->has_pieces = false;
}

void Outbox::leave(const Message& message) {
  if (!has_places()) return;
  Content& content = contents_[content_of(message)];
  if (--content.messages == 0) content.id = 0;
}

std::size_t Outbox::content_of(const Message& message) const {
  if (!has_places()) return 0;
  for (std::size_t k = 0; k < contents_.size(); ++k)
    if (contents_[k].id != 0 && std::ranges::equal(contents_[k].memory, message.memory)) return k;
  throw InternalError("a message leaves the outbox that has not entered it");
}

std::optional<std::uint32_t> Outbox::find(std::size_t content, std::size_t offset) const {
  if (!contents_[content].has_pieces) return {};
  const auto is_it = [&](const Piece& piece) {
    return piece.content == contents_[content].id && piece.offset == offset;
  };
  const auto found = std::ranges::find_if(pieces_, is_it);
  if (found == pieces_.end()) return {};
  return static_cast<std::uint32_t>(found - pieces_.begin());
}

std::optional<std::uint32_t> Outbox::put(std::size_t content, std::size_t offset, SpanCursor& from, std::size_t bytes) {
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
