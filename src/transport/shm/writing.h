// SPDX-License-Identifier: Apache-2.0
// What a sender writes of a large message into the memory of its receiver, which reads the rest: see piece_claims.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/shm/lane.h"
#include "transport/span_cursor.h"
#include "transport/transport.h"

namespace lanecast::shm {

class Writing {
 public:
  /// `claims`: of the lane; `receiver`: its process.
  Writing(PieceClaims& claims, int receiver) : claims_(claims), receiver_(receiver) {}

  /// The receiver has come to this message; what it offered before it has whole.
  void begin(const Message& message, const CopyOffer& offer, bool timed);
  /// One piece, if there is one left.
  void write();

  struct Part {
    std::size_t bytes = 0;           // that this rank has written
    std::optional<std::int64_t> ns;  // what that took, where it has looked at the clock
  };
  /// The receiver has it whole.
  Part end(const Message& message);

 private:
  PieceClaims& claims_;
  const int receiver_;
  bool refused_ = false;  // the system has not let us write, and would not again

  const Message* message_ = nullptr;  // under way
  CopyOffer offer_;
  CopyPieces pieces_;
  SpanCursor memory_;
  std::size_t place_ = 0;  // of the cursor
  std::size_t written_bytes_ = 0;
  bool timed_ = false;
  std::int64_t copies_ns_ = 0;
};

}  // namespace lanecast::shm
