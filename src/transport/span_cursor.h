// SPDX-License-Identifier: Apache-2.0
// Walks through the spans of a message from front to back: the one place that gathers and scatters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/copy.h"
#include "base/error.h"
#include "transport/transport.h"

namespace lanecast {

class SpanCursor {
 public:
  SpanCursor() = default;
  explicit SpanCursor(std::span<const Span> spans) : spans_(spans) {}

  /// The next piece that lies together, 1 to `bytes` bytes; the cursor moves past it. `bytes` is at least 1.
  Span take(std::size_t bytes) {
    while (index_ < spans_.size() && offset_ == spans_[index_].bytes) ++index_, offset_ = 0;
    if (index_ == spans_.size()) throw InternalError("a message names less memory than it has bytes");
    const Span piece{spans_[index_].data + offset_, std::min(bytes, spans_[index_].bytes - offset_)};
    offset_ += piece.bytes;
    return piece;
  }

  /// Bytes that lie together at the cursor; 0 at the end.
  std::size_t together() {
    while (index_ < spans_.size() && offset_ == spans_[index_].bytes) ++index_, offset_ = 0;
    return index_ < spans_.size() ? spans_[index_].bytes - offset_ : 0;
  }

  void skip(std::size_t bytes) {
    while (bytes > 0) bytes -= take(bytes).bytes;
  }

  void gather(std::byte* to, std::size_t bytes, Stores stores = Stores::ordinary) {
    while (bytes > 0) {
      const Span piece = take(bytes);
      copy(to, piece.data, piece.bytes, stores);
      to += piece.bytes;
      bytes -= piece.bytes;
    }
  }

  void scatter(const std::byte* from, std::size_t bytes, Stores stores = Stores::ordinary) {
    while (bytes > 0) {
      const Span piece = take(bytes);
      copy(piece.data, from, piece.bytes, stores);
      from += piece.bytes;
      bytes -= piece.bytes;
    }
  }

 private:
  std::span<const Span> spans_;
  std::size_t index_ = 0;   // span
  std::size_t offset_ = 0;  // bytes of it behind the cursor
};

}  // namespace lanecast
