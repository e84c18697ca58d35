// SPDX-License-Identifier: Apache-2.0
// A queue pair as its NIC works on it: works are cut into segments, which take the NIC's time one after the other, are
// copied when they are due, and end with the work's word and message.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/emulated/engine.h"
#include "transport/emulated/fabric.h"

namespace lanecast::emulated {

/// Of both directions: what a segment takes of the NIC that sends and of the one that receives.
class Clock {
 public:
  Clock(const FabricState& fabric, NicState& own);

  /// The largest piece that is sent in one go: as others wait for it, of some 10 us.
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  /// When bytes to that NIC that are there since `posted_ns` could begin.
  std::uint64_t start_ns(std::uint64_t posted_ns, const NicState& to) const;
  /// They begin; when they may be read.
  std::uint64_t take(std::uint64_t posted_ns, NicState& to, std::uint64_t bytes);
  /// From a launch to its bytes no copy takes less, so a copy may begin so long before its bytes are due.
  std::uint64_t lead_ns() const { return lead_ns_; }
  void copied_within(std::uint64_t ns);

  NicState& own() const { return own_; }

 private:
  double ns_per_byte_;
  std::uint64_t latency_ns_, segment_bytes_;
  std::uint64_t sends_until_ns_ = 0;
  std::uint64_t quickest_ns_ = UINT64_MAX, lead_ns_ = 0;
  NicState& own_;
};

class QueuePair {
 public:
  struct Ends {
    const PortMemory& here;
    const PortMemory& there;
    NicState& nic;  // there
    Ring<NicWork> works;
    Ring<Arrival> arrivals;
  };
  explicit QueuePair(const Ends& ends) : ends_(ends) {}

  /// Of queue pairs whose next segments wait, the one with the least goes first.
  struct Turn {
    std::uint64_t start_ns = 0;        // when its next segment could begin
    std::uint64_t last_served_ns = 0;  // those that could begin together, as a busy NIC's all can, take turns
    auto operator<=>(const Turn&) const = default;
  };
  /// None where it has no segment to begin, or too many under way.
  std::optional<Turn> turn(const Clock& clock) const;
  void begin_segment(Clock& clock);
  /// Launches copies that are due. engine: of the NIC; null where no memory of a GPU is named. True when any was.
  bool launch(Clock& clock, Engine* engine, std::uint64_t now);
  /// Ends segments whose time has come and whose copies are there. True when any was.
  bool finish(Clock& clock, Engine* engine, std::uint64_t now);

  /// Memory that its works name is gone, with the rank that has given it: no message or word goes there any more.
  void end();
  /// Until when there is nothing to do, as far as segments under way go; 0 where copies have to be looked at.
  std::uint64_t quiet_until_ns(const Clock& clock) const;

 private:
  static constexpr std::size_t kMostSegments = 32;
  struct Segment {
    std::uint64_t due_ns = 0, offset = 0, put_bytes = 0, message_bytes = 0, launched_ns = 0, mark = 0;
    bool last = false, launched = false, reached = false;
  };
  void launch(const Segment& segment, const NicWork& work, Engine& engine) const;
  NicWork* current() const { return ends_.works.to_read(begun_); }
  /// The work that the first segment belongs to.
  NicWork& oldest() const { return *ends_.works.to_read(); }

  Ends ends_;
  std::uint64_t begun_ = 0;   // works, of those not popped, all of whose segments have begun
  std::uint64_t offset_ = 0;  // of the next one's put
  std::uint64_t last_served_ns_ = 0;
  std::deque<Segment> segments_;
  std::vector<Segment*> unmarked_;
  bool ended_ = false;
};

}  // namespace lanecast::emulated
