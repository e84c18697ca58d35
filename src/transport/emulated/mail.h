// SPDX-License-Identifier: Apache-2.0
// Letters to and from one peer: what has no room in a queue pair yet waits here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "transport/emulated/own_port.h"
#include "transport/emulated/wire.h"

namespace lanecast::emulated {

class Mail {
 public:
  /// done: where messages go that the NIC has.
  Mail(const OwnPort& port, int peer, std::vector<Message*>& done)
      : port_(&port),
        done_(&done),
        works_{port.works(peer, Queue::messages), port.works(peer, Queue::puts)},
        arrivals_{port.arrivals(peer, Queue::messages), port.arrivals(peer, Queue::puts)} {}

  /// Sent at once or when there is room, in order.
  void send(const Envelope& envelope, std::span<const std::byte> content = {});
  /// Likewise a message behind its envelope. Once the NIC has it, it arrives whatever this rank does, and is done.
  void send(const Envelope& envelope, Message& message);
  /// A put, with the envelope behind it. Its number, in the order of the puts.
  std::uint64_t put(const Put& what, const Envelope& envelope);
  /// Up to that number they have left their memory.
  std::uint64_t puts_done() const { return works_[1].popped(); }
  /// Room for a letter now? Then `write` fills its content.
  template <class Write>
  bool send_now(const Envelope& envelope, std::size_t bytes, const Write& write) {
    if (!letters_.empty()) return false;
    NicWork* const work = works_[0].to_write();
    if (!work) return false;
    write(content_of(*work, envelope, bytes));
    hand_over(0);
    return true;
  }
  /// Of what waits for room, only notes go on.
  void forget();
  /// Sends what waits, as far as there is room. True when anything was sent.
  bool push();
  /// Has the NIC taken all?
  bool sent() const { return letters_.empty() && puts_.empty() && works_[0].empty() && works_[1].empty(); }

  /// The next letter that has come and may be read; null: none. done(): its slot may be used again.
  const Envelope* arrived(Queue queue) const;
  std::span<const std::byte> content(Queue queue) const;
  void done(Queue queue) const { arrivals_[static_cast<std::size_t>(queue)].pop(); }

 private:
  struct KeptLetter {
    Envelope envelope;
    std::vector<std::byte> content;
    Message* message = nullptr;  // instead of the content
  };
  struct PutLetter {
    Put what;
    Envelope envelope;
  };
  static std::byte* content_of(NicWork& work, const Envelope& envelope, std::size_t bytes);
  void hand_over(std::size_t queue) const;

  const OwnPort* port_;
  std::vector<Message*>* done_;
  std::array<Ring<NicWork>, kQueues> works_;
  std::array<Ring<Arrival>, kQueues> arrivals_;
  std::deque<KeptLetter> letters_;
  std::deque<PutLetter> puts_;
  std::uint64_t last_put_ = 0;
};

}  // namespace lanecast::emulated
