// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/queue_pair.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace lanecast::emulated {
namespace {

constexpr double kSegment_s = 10e-6;
constexpr std::uint64_t kLeastSegment = 16 << 10, kMostSegment = 1 << 20;
/// Of the time that the quickest copy took until it was seen: its bytes may have been there earlier.
constexpr double kSafeShare = 0.6;

}  // namespace

Clock::Clock(const FabricState& fabric, NicState& own)
    : ns_per_byte_(1e9 / fabric.bytes_per_s),
      latency_ns_(fabric.latency_ns),
      segment_bytes_(
          std::clamp(static_cast<std::uint64_t>(fabric.bytes_per_s * kSegment_s), kLeastSegment, kMostSegment)),
      own_(own) {}

std::uint64_t Clock::start_ns(std::uint64_t posted_ns, const NicState& to) const {
  return std::max({posted_ns, sends_until_ns_, to.receives_until_ns.load(std::memory_order_relaxed)});
}

std::uint64_t Clock::take(std::uint64_t posted_ns, NicState& to, std::uint64_t bytes) {
  const auto ns = static_cast<std::uint64_t>(static_cast<double>(bytes) * ns_per_byte_);
  // Relaxed: it orders nothing but the NICs that send there among themselves, by its own value.
  std::uint64_t receives_until = to.receives_until_ns.load(std::memory_order_relaxed), end = 0;
  do end = std::max({posted_ns, sends_until_ns_, receives_until}) + ns;
  while (!to.receives_until_ns.compare_exchange_weak(receives_until, end, std::memory_order_relaxed));
  sends_until_ns_ = end;
  return end + latency_ns_;
}

void Clock::copied_within(std::uint64_t ns) {
  quickest_ns_ = std::min(quickest_ns_, ns);
  lead_ns_ = std::min(latency_ns_, static_cast<std::uint64_t>(kSafeShare * static_cast<double>(quickest_ns_)));
}

std::optional<QueuePair::Turn> QueuePair::turn(const Clock& clock) const {
  const NicWork* const work = current();
  if (ended_ || !work || segments_.size() >= kMostSegments) return {};
  return Turn{clock.start_ns(work->posted_ns, ends_.nic), last_served_ns_};
}

void QueuePair::begin_segment(Clock& clock) {
  const NicWork& work = *current();
  Segment segment;
  segment.offset = offset_;
  segment.put_bytes = std::min(clock.segment_bytes(), work.put.bytes - offset_);
  offset_ += segment.put_bytes;
  segment.last = offset_ == work.put.bytes;
  if (segment.last) segment.message_bytes = work.message_bytes;
  segment.due_ns = clock.take(work.posted_ns, ends_.nic, segment.put_bytes + segment.message_bytes);
  last_served_ns_ = segment.due_ns;
  segment.launched = segment.put_bytes == 0 && !(segment.last && work.word.wanted);
  segment.reached = segment.launched;
  segments_.push_back(segment);
  if (!segment.last) return;
  ++begun_;
  offset_ = 0;
}

bool QueuePair::launch(Clock& clock, Engine* engine, std::uint64_t now) {
  std::uint64_t work = 0;                     // the segment's, of those not popped
  std::vector<Segment*>& behind = unmarked_;  // last segments whose copies have been launched
  behind.clear();
  bool any = false;
  for (Segment& segment : segments_) {
    if (!segment.launched) {
      if (now + clock.lead_ns() < segment.due_ns) break;
      if (!engine) throw InternalError("a work names GPU memory, and none was enrolled");
      launch(segment, *ends_.works.to_read(work), *engine);
      segment.launched = any = true;
      segment.launched_ns = now;
      if (segment.last)
        behind.push_back(&segment);
      else
        segment.reached = true;  // those behind it end later
    }
    work += segment.last ? 1 : 0;
  }
  // One for all of them: a NIC that is behind its time spends less on each.
  const std::uint64_t mark = behind.empty() ? 0 : engine->mark();
  for (Segment* segment : behind) segment->mark = mark;
  return any;
}

void QueuePair::launch(const Segment& segment, const NicWork& work, Engine& engine) const {
  const auto at = [&](const RegisteredPlace& place) {
    return RegisteredPlace{place.key, place.offset + segment.offset};
  };
  if (segment.put_bytes > 0)
    engine.copy(engine.locate(ends_.there, at(work.put.to), segment.put_bytes),
                engine.locate(ends_.here, at(work.put.from), segment.put_bytes), segment.put_bytes);
  if (segment.last && work.word.wanted)
    engine.write(engine.locate(ends_.there, work.word.at, sizeof work.word.value), work.word.value);
}

void QueuePair::end() {
  ended_ = true;
  segments_.clear();
}

bool QueuePair::finish(Clock& clock, Engine* engine, std::uint64_t now) {
  bool any = false;
  for (; ended_ && ends_.works.to_read(); any = true) ends_.works.pop();  // whoever posts them need not wait
  for (; !segments_.empty() && segments_.front().launched; segments_.pop_front()) {
    Segment& segment = segments_.front();
    if (!segment.reached) {
      if (!engine->reached(segment.mark)) break;
      segment.reached = true;
      clock.copied_within(now_ns() - segment.launched_ns);
    }
    if (now < segment.due_ns) break;
    if (segment.last) {
      const NicWork& work = oldest();
      if (work.message_bytes > 0) {
        Arrival* const arrival = ends_.arrivals.to_write();
        if (!arrival) break;  // its rank has not taken those before
        arrival->bytes = work.message_bytes;
        std::memcpy(Ring<Arrival>::message(arrival), Ring<NicWork>::message(&oldest()), work.message_bytes);
        ends_.arrivals.push();
      }
      ends_.works.pop();
      --begun_;
      clock.own().messages.fetch_add(1, std::memory_order_relaxed);
    }
    const std::uint64_t bytes = segment.put_bytes + segment.message_bytes;
    clock.own().sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
    ends_.nic.received_bytes.fetch_add(bytes, std::memory_order_relaxed);
    any = true;
  }
  return any;
}

std::uint64_t QueuePair::quiet_until_ns(const Clock& clock) const {
  std::uint64_t until = UINT64_MAX;
  for (const Segment& segment : segments_) {
    if (segment.launched && !segment.reached) return 0;
    until =
        std::min(until, segment.launched ? segment.due_ns : segment.due_ns - std::min(segment.due_ns, clock.lead_ns()));
  }
  return until;
}

}  // namespace lanecast::emulated
