// SPDX-License-Identifier: Apache-2.0
// The transport over emulated NICs: what RDMA offers, registered memory, puts with a word or a message behind and
// queue pairs, at a rate and a latency that are given. For networks as fast as clusters have, on one machine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/emulated/mail.h"
#include "transport/emulated/note_carrier.h"
#include "transport/notes.h"
#include "transport/span_cursor.h"
#include "transport/tag_queues.h"
#include "transport/transport.h"

namespace lanecast {

class EmulatedTransport final : public Transport {
 public:
  /// Collective. folder: of the network that runs; host: of this rank, as its NIC process is called.
  EmulatedTransport(const Bootstrap& bootstrap, const std::string& folder, const std::string& host);
  ~EmulatedTransport() override;

  std::string_view name() const override { return "emulated"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < port_.size() && peer != port_.rank(); }
  Traits traits() const override {
    return {.scatters = true,
            .consumes = true,
            .shares_wires = true,
            .compares_stamps = true,
            // Letters carry what is shorter, at once. Longer ones of the host would be announced and called for first.
            .least_on_gpu = emulated::kMostInLetter + 1};
  }
  std::optional<bool> takes(GpuVendor vendor) const override { return port_.gpus() == vendor; }
  void register_memory(const GpuSpan& memory) override { port_.enroll(memory); }
  void unregister_memory(const GpuSpan& memory) override { port_.withdraw(memory.memory.data); }

  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  Witness& witness() override { return notes_; }

 private:
  /// A letter that no receive has met yet.
  struct EarlyLetter {
    emulated::Envelope envelope;
    std::vector<std::byte> content;
  };
  /// A long message whose receive has called for it.
  struct FragmentStream {
    Message* message = nullptr;
    SpanCursor cursor;
    std::uint64_t left = 0, number = 0;  // bytes; the receiver's
  };
  struct CalledFor {
    Message* message = nullptr;
    SpanCursor cursor;
    std::uint64_t received = 0;
    bool unmet = false;  // its receive waits among the others, too
  };
  /// A receive of GPU memory, by its message's number where it has called for that.
  struct PostedReceive {
    Message* message = nullptr;
    std::uint64_t called = 0;
  };
  struct PutUnderWay {
    std::uint64_t put = 0;
    Message* message = nullptr;
  };
  struct Peer {
    TagQueues<PostedReceive> receives;
    TagQueues<emulated::Envelope> calls;         // for messages in GPU memory that have not been sent yet
    TagQueues<std::uint64_t> announced;          // by this rank, in GPU memory: their numbers
    std::uint64_t puts_sent = 0, puts_come = 0;  // unannounced
    std::set<std::uint64_t> overtaken;           // announcements that come after their messages
    std::set<std::uint64_t> behind_puts;         // tags whose oldest early letter waits for unannounced puts
    TagQueues<EarlyLetter> early;
    std::deque<FragmentStream> streams;
    std::deque<PutUnderWay> puts;
    bool gone = false;
  };
  struct Mismatch {
    Message* receive = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t stamp = 0;
  };

  /// It sees as well whose NIC or transport has ended.
  class NicWitness final : public Notes {
   public:
    explicit NicWitness(EmulatedTransport& owner) : Notes(owner.note_carrier_), owner_(owner) {}
    Loss lost(int peer) override;

   private:
    EmulatedTransport& owner_;
  };

  std::optional<emulated::RegisteredPlace> gpu_place(const Message& message) const;
  /// Takes letters, and sends what has room. True when anything moved. Throws nothing that is about a message.
  bool move();
  void take(int from, const emulated::Envelope& envelope, std::span<const std::byte> content);
  void meet(Message& receive, const emulated::Envelope& envelope, std::span<const std::byte> content);
  void called_for(int from, const emulated::Envelope& envelope);
  /// All of a message, or more of it, that a receive has called for.
  void came(Peer& peer, const emulated::Envelope& envelope, std::span<const std::byte> content);
  /// Null: none. Not one whose message has come.
  PostedReceive* oldest_receive(Peer& peer, std::uint64_t tag);
  /// A letter and the oldest receive of its tag, as long as there are both and none waits for a put between them.
  void match(Peer& peer, std::uint64_t tag);
  /// announced: this rank's number for it; 0: it has none.
  void put(Message& message, const emulated::Envelope& call, std::uint64_t announced);
  bool stream(int to);
  void forget_messages();
  /// Pushes letters until NICs have taken all, none of them moves for so long, or `most` is over.
  void push_all(std::chrono::milliseconds silent, std::chrono::steady_clock::duration most);

  emulated::OwnPort port_;
  std::vector<Message*> done_;
  std::vector<emulated::Mail> mail_;
  emulated::EmulatedNoteCarrier note_carrier_;
  NicWitness notes_;
  std::vector<Peer> peers_;
  std::map<std::uint64_t, Message*> announced_;  // by this rank's numbers
  std::map<std::uint64_t, CalledFor> called_;    // likewise
  std::uint64_t last_number_ = 0;
  std::vector<Mismatch> mismatches_;
  bool left_ = false;  // aborted
};

}  // namespace lanecast
