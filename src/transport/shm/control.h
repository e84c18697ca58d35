// SPDX-License-Identifier: Apache-2.0
// The control slots of a lane: short notes from its receiver to its sender, in order. The kind of a slot says whose
// turn it is, so neither side needs a counter in shared memory.
#pragma once

#include <optional>

#include "transport/shm/lane.h"

namespace lanecast::shm {

struct ControlNote {
  ControlKind kind = ControlKind::none;
  std::uint64_t tag = 0;
  CopyOffer offer = {};
};

class ControlWriter {
 public:
  explicit ControlWriter(LaneControl* control) : control_(control) {}

  bool has_room() const {
    // Acquire: pairs with the release in ControlReader::pop(); the reader is through with the slot.
    return slot().kind.load(std::memory_order_acquire) == ControlKind::none;
  }

  bool put(ControlNote note) {
    if (!has_room()) return false;
    slot().tag = note.tag;
    if (note.kind == ControlKind::offered) slot().offer = note.offer;
    // Release: whoever sees the kind sees the rest, and for `taken` and `fetched` our reads of its memory lie before.
    slot().kind.store(note.kind, std::memory_order_release);
    ++written_;
    return true;
  }

 private:
  ControlSlot& slot() const { return control_->slots[written_ % LaneControl::kSlots]; }
  LaneControl* control_;
  std::size_t written_ = 0;
};

class ControlReader {
 public:
  explicit ControlReader(LaneControl* control) : control_(control) {}

  bool has_note() const {
    // Acquire: pairs with the release in ControlWriter::put().
    return slot().kind.load(std::memory_order_acquire) != ControlKind::none;
  }

  std::optional<ControlNote> pop() {
    if (!has_note()) return std::nullopt;
    ControlNote note{slot().kind.load(std::memory_order_relaxed), slot().tag};  // ordered by has_note()
    if (note.kind == ControlKind::offered) note.offer = slot().offer;
    // Release: our loads come before the writer's next one.
    slot().kind.store(ControlKind::none, std::memory_order_release);
    ++read_;
    return note;
  }

 private:
  ControlSlot& slot() const { return control_->slots[read_ % LaneControl::kSlots]; }
  LaneControl* control_;
  std::size_t read_ = 0;
};

}  // namespace lanecast::shm
