// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/writing.h"

#include "base/pace.h"
#include "transport/shm/cma.h"

namespace lanecast::shm {

void Writing::begin(const Message& message, const CopyOffer& offer, bool timed) {
  if (refused_) return;
  message_ = &message;
  offer_ = offer;
  pieces_ = CopyPieces(message.bytes);
  memory_ = SpanCursor(message.memory);
  place_ = written_bytes_ = 0;
  timed_ = timed;
  copies_ns_ = 0;
}

void Writing::write() {
  if (!message_) return;
  const auto piece = claims_.claim(offer_.number, pieces_, 1);
  if (!piece) return;
  const std::size_t begin = pieces_.begin(*piece), bytes = pieces_.end(*piece) - begin;
  memory_.skip(begin - place_);
  place_ = begin + bytes;
  const std::int64_t since_ns = timed_ ? clock_ns(bytes) : 0;
  if (!write_remote(receiver_, memory_, offer_.memory + begin, bytes)) {
    refused_ = true;
    message_ = nullptr;
    return claims_.refuse(piece->first);
  }
  if (timed_) copies_ns_ += clock_ns(bytes) - since_ns;
  written_bytes_ += bytes;
  claims_.wrote();
}

Writing::Part Writing::end(const Message& message) {
  if (message_ != &message) return {};
  message_ = nullptr;
  return {written_bytes_, timed_ ? std::optional(copies_ns_) : std::nullopt};
}

}  // namespace lanecast::shm
