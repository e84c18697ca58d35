// SPDX-License-Identifier: Apache-2.0
// The border between plans and wires: tagged messages between ranks.
//
// A transport knows no algorithm, no step and no clock: it moves what it is handed, in whatever order it can, and the
// executor above it does the waiting. All calls on one transport come from one thread at a time. What ranks tell each
// other beside messages is the border in witness.h, and whole collectives of a library's own are that in groups.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/failure.h"
#include "base/gpu_vendor.h"
#include "base/kind.h"

namespace lanecast {

class Groups;
class Witness;

struct Span {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool operator==(const Span&) const = default;
};

/// Memory of a GPU in which messages will lie.
struct GpuSpan {
  GpuVendor vendor{};
  Span memory;
  std::array<char, 64> handle{};  // as another process opens it; zeros where the driver offers none
  std::array<char, 32> bus_id{};  // of the GPU: "0000:3B:00.0"
};

/// Shorter messages leave from and come into the host's memory, also where a transport takes a GPU's, unless its traits
/// say another length. Libraries send short ones by protocols that copy them, which is a call of the GPU's driver where
/// they lie on it, and over RDMA all of these end well below. On the way through the host's memory a copy engine takes
/// 3 us for so many bytes, no more than it takes to begin.
inline constexpr std::size_t kLeastOnGpu = std::size_t{64} << 10;

/// Takes an arriving message piece by piece instead of having it written to memory: a reduction at the receiver.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// Bytes [offset, offset + bytes) of the message, in order. Cuts fall on multiples of 8 bytes from the message's
  /// start, or on the borders of the sender's spans, so never inside an element.
  virtual void consume(std::size_t offset, const std::byte* data, std::size_t bytes) = 0;
};

/// The tags of a transport come in two halves: below this one those of plans' steps, from here on those of messages
/// that two ranks exchange of their own accord. So a call that the other ranks know nothing of meets no collective.
constexpr std::uint64_t first_message_tag(std::uint64_t max_tag) { return max_tag / 2; }

/// "tag 7" as the caller of a send or receive knows it, "step tag 7" for a plan's.
inline std::string describe_tag(std::uint64_t tag, std::uint64_t max_tag) {
  const std::uint64_t first = first_message_tag(max_tag);
  return tag < first ? "step tag " + std::to_string(tag) : "tag " + std::to_string(tag - first);
}

/// One message. The executor owns it and keeps it, and the memory it names, untouched until the transport reports it
/// done. Messages between a pair of ranks match by tag; equal tags match in the order in which they were posted.
struct Message {
  int peer = -1;                 // rank in the communicator
  std::uint64_t tag = 0;         // below Traits::max_tag
  std::size_t bytes = 0;         // equal on both sides, else the transport throws; may be 0
  std::span<const Span> memory;  // sent from, or received into, in this order
  Consumer* consumer = nullptr;  // receive only: takes the bytes instead of `memory`
  std::uint32_t stamp = 0;       // below 2^31: the call it belongs to; see Traits::compares_stamps
  // Of that call; none: of no call, or nobody says. Equal on both sides, or the transport may throw: by it both know
  // how the message travels.
  std::optional<Kind> kind;
  bool passed_on = false;  // has its sender written it in this call? Only times depend on it
};

/// May its sender have added it up?
inline bool may_be_sums(const Message& message) { return message.kind && may_reduce(*message.kind); }

/// Throws for a message that has met this rank's receive of another length or stamp. sent: its bytes, "more" where the
/// transport does not learn how many. Calls may be equal as far as all ranks know and their messages not: of no
/// elements there is none.
[[noreturn]] inline void raise_mismatch(const Message& receive, int rank, const std::string& sent,
                                        std::uint64_t max_tag, bool same_stamp) {
  const std::string text = "rank " + std::to_string(receive.peer) + " sends " + sent + " bytes under " +
                           describe_tag(receive.tag, max_tag) + ", rank " + std::to_string(rank) + " expects " +
                           std::to_string(receive.bytes) + (same_stamp ? "" : " in another call") +
                           ": the ranks have made different calls" +
                           (same_stamp ? "" : ", or own counts in one before that did not agree");
  if (receive.tag < first_message_tag(max_tag)) throw StepMismatchError(text, receive.peer, same_stamp);
  throw MismatchError(text);
}

/// What a transport does with messages by itself; the defaults are the least.
struct Traits {
  std::uint64_t max_tag = UINT64_MAX;  // tags are below it
  /// May `Message::memory` hold several spans, and may a receive name a consumer? Where not, the executor packs and
  /// unpacks (that packing is the shuffle of the papers) and reduces when the message has arrived.
  bool scatters = false;
  bool consumes = false;
  /// Do threads of its own move long messages, whatever the caller's does meanwhile?
  bool moves_by_itself = false;
  /// And through all NICs of every rank at once: so many has who has the most. Else 1.
  int nics_at_once = 1;
  /// Do messages that are under way together share a wire, and so slow each other down? Where not, as between cores
  /// that copy, all that are ready are posted at once.
  bool shares_wires = false;
  /// Does a long message leave only when its receiver has answered, on what messages the other way also take?
  bool announces = false;
  /// Or one that will be added, from so many bytes on, only when its receiver has asked for it? That takes both about
  /// the time of copying `asking_bytes`.
  std::size_t asks_from = SIZE_MAX, asking_bytes = 0;
  /// From how many bytes on a sender copies what goes to several peers at once only once, however many they are.
  std::size_t sends_once_from = SIZE_MAX;
  /// From how many bytes on receivers may copy it straight from where its sender has it, each what is its own.
  std::size_t read_from = SIZE_MAX;
  /// Does a receive compare its stamp with its message's, and throw MismatchError where they differ? Where not, the
  /// executor makes the stamp part of the tag: messages of different calls then never meet.
  bool compares_stamps = false;
  std::size_t least_on_gpu = kLeastOnGpu;  // bytes of a message that may lie there, see takes()
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual bool reaches(int peer) const = 0;
  /// The same at any time.
  virtual Traits traits() const { return {}; }

  virtual void post_send(Message& message) = 0;
  virtual void post_recv(Message& message) = 0;
  /// Moves what can be moved without blocking and appends what has finished. Returns whether anything moved, as far as
  /// the transport can tell: who waits gives up the core only when nothing does. Throws TransportError for a lost peer,
  /// MismatchError for a message of another length than expected.
  virtual bool progress(std::vector<Message*>& done) = 0;
  /// Has a message of this tag come from `peer` that no receive has met yet? May move what others have posted. Throws
  /// UsageError where the transport cannot tell.
  virtual bool arrived(int peer, std::uint64_t tag);
  /// Gives up everything posted; its memory is not touched afterwards. The transport is of no further use. Where it can
  /// be done, the peers' Witness::lost() says the cause.
  virtual void abort(const Failure& cause) = 0;

  /// May `peer` read so many bytes straight from this process's memory? sums: they were added up in this call.
  virtual bool may_be_read(int /*peer*/, std::size_t /*bytes*/, bool /*sums*/) const { return true; }
  /// Does it, and from a core that is not known to share no cache with this one? Never where the transport cannot tell.
  virtual bool is_read_near(int /*peer*/) const { return false; }
  /// May `Message::memory` lie on a GPU of this vendor's? Nothing where only the user can decide: the library below may
  /// not know, or would call the GPU's driver while messages move.
  virtual std::optional<bool> takes(GpuVendor) const { return false; }
  /// Why the user has to decide, for people, where there is something to decide: "the MPI library calls …"; else empty.
  virtual std::string why_undecided(GpuVendor) const { return {}; }
  /// Takes note of a GPU's memory in which messages will lie, before the first of them does. From a thread that may
  /// call the GPU's driver, with the GPU current: no other call of a transport that takes() such memory calls it.
  virtual void register_memory(const GpuSpan& /*memory*/) {}
  /// It goes, and nothing lies in it any more; from such a thread. Memory that is there for longer than the transport
  /// gets no such call.
  virtual void unregister_memory(const GpuSpan& /*memory*/) {}

  /// What is known of peers beside messages. As long as the transport.
  virtual Witness& witness() = 0;
  /// Collectives of its own library; null where it has none. As long as the transport.
  virtual Groups* groups() { return nullptr; }
};

inline bool Transport::arrived(int /*peer*/, std::uint64_t /*tag*/) {
  throw UsageError("the transport " + std::string(name()) + " cannot tell what has arrived; receive from a named rank");
}

}  // namespace lanecast
