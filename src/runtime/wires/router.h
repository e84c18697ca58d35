// SPDX-License-Identifier: Apache-2.0
// Which transport carries what: messages by peer, group calls by the level at which their members meet.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"
#include "runtime/watch/call_log.h"
#include "transport/groups.h"
#include "transport/transport.h"
#include "transport/witness.h"

namespace lanecast {

/// A message that knows who posted it: calls share the transports, and whoever moves those hears of everybody's.
struct Posted : Message {
  virtual void arrived() = 0;

 protected:
  ~Posted() = default;
};

/// A quarter of the tags of plans' steps is for calls in the order of a device, which go beside those in the host's.
inline std::uint64_t launched_tags(const Transport& transport) {
  return first_message_tag(transport.traits().max_tag) / 4;
}

/// Where the transport compares no stamps, messages of different calls must not meet.
inline std::uint64_t salted(const Transport& transport, std::uint64_t ordinal, std::uint32_t stamp) {
  return ordinal + (transport.traits().compares_stamps ? 0 : stamp);
}

/// The tag of a message of a call.
inline std::uint64_t call_tag(const Transport& transport, std::uint64_t ordinal, std::uint32_t stamp) {
  const std::uint64_t apart = launched_tags(transport);
  const std::uint64_t others = first_message_tag(transport.traits().max_tag) - apart;
  const std::uint64_t tag = salted(transport, ordinal, stamp) % others;
  return tag < apart ? tag : tag + apart;
}

/// The last ones of that quarter are for messages between two ranks of a GPU's memory.
constexpr std::uint64_t kGpuMessageTags = 64;

/// The same of a call in the order of a device.
inline std::uint64_t launched_tag(const Transport& transport, std::uint64_t ordinal, std::uint32_t stamp) {
  const std::uint64_t tags = launched_tags(transport);
  return tags + salted(transport, ordinal, stamp) % (tags - kGpuMessageTags);
}

/// which: below kGpuMessageTags.
inline std::uint64_t gpu_message_tag(const Transport& transport, std::uint64_t which) {
  return 2 * launched_tags(transport) - kGpuMessageTags + which;
}

class Router {
 public:
  /// Around calls of a transport that may go into a library: another thread sees where this one is.
  class Visit {
   public:
    Visit(Router& router, const Transport& transport, int peer = -1) : router_(router) {
      // Relaxed: they say where, to people. What comes behind has to be seen after them.
      router.visited_.store(&transport, std::memory_order_relaxed);
      router.visited_for_.store(peer, std::memory_order_relaxed);
      step(std::memory_order_release);
    }
    ~Visit() { step(std::memory_order_relaxed); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    /// One thread at a time is here, so nothing comes in between.
    void step(std::memory_order order) {
      router_.visits_.store(router_.visits_.load(std::memory_order_relaxed) + 1, order);
    }
    Router& router_;
  };
  /// How often a visit has begun or ended: odd while one lasts. Acquire: pairs with Visit.
  std::uint64_t visits() const { return visits_.load(std::memory_order_acquire); }
  /// Where the latest one is, and with which peers that has to do: "ucx (rank 1)". Any thread.
  std::string visited() const;

  /// by_peer[r]: index of the transport that carries messages to rank r, −1 for this rank itself.
  Router(std::vector<std::unique_ptr<Transport>> transports, std::vector<int> by_peer)
      : transports_(std::move(transports)), by_peer_(std::move(by_peer)) {
    for (std::size_t k = 0; k < transports_.size(); ++k) {
      std::vector<int> carried;
      for (std::size_t peer = 0; peer < by_peer_.size(); ++peer)
        if (by_peer_[peer] == static_cast<int>(k)) carried.push_back(static_cast<int>(peer));
      transports_[k]->witness().carries(carried);
    }
  }

  Transport& to(int peer) { return *transports_[by_peer_[peer]]; }
  /// Of the transport that carries messages to this peer.
  Witness& witness(int peer) { return to(peer).witness(); }
  /// Its number among the transports; none for this rank itself.
  std::size_t number_of(int peer) const { return static_cast<std::size_t>(by_peer_[peer]); }
  int size() const { return static_cast<int>(by_peer_.size()); }  // ranks
  std::size_t count() const { return transports_.size(); }
  Transport& operator[](std::size_t k) { return *transports_[k]; }

  /// Moves the messages of all calls and tells those that are done; true when anything moved.
  bool progress() {
    done_.clear();
    bool moved = false;
    for (auto& transport : transports_) {
      const Visit visit(*this, *transport);
      moved |= transport->progress(done_);
    }
    for (Message* message : done_) static_cast<Posted*>(message)->arrived();
    return moved || !done_.empty();
  }

  /// Where calls note what they do for their steps; null where nobody wants to know.
  void record(CallLog* log) { log_ = log; }
  CallLog* log() const { return log_; }

  /// How many tags point-to-point messages have, whichever transport carries them.
  std::uint64_t message_tags() const {
    std::uint64_t tags = UINT64_MAX;
    for (const auto& transport : transports_)
      tags = std::min(tags, transport->traits().max_tag - first_message_tag(transport->traits().max_tag));
    return tags;
  }

  /// Of the transport that has the most; see Traits.
  int nics_at_once() const {
    int most = 1;
    for (const auto& transport : transports_) most = std::max(most, transport->traits().nics_at_once);
    return most;
  }

  /// To all peers, over all transports. See Witness::publish.
  void publish(const CallNote& note) {
    for (auto& transport : transports_) transport->witness().publish(note);
  }
  /// Over all transports, since a rank is asked over another than the one it waits for. See Witness::publish_wait.
  void publish_wait(std::span<const int> peers, bool may_be_asked) {
    for (auto& transport : transports_) transport->witness().publish_wait(peers, may_be_asked);
  }

  /// A transport that has groups and runs this collective by itself, or null.
  Transport* library_for(Kind kind, DType dtype, ReduceOp op) {
    for (auto& transport : transports_)
      if (Groups* const groups = transport->groups(); groups && groups->runs(kind, dtype, op)) return transport.get();
    return nullptr;
  }

  /// "mpi+shm": what the messages of this rank go over.
  std::string str() const {
    std::string names;
    for (std::size_t k = 0; k < transports_.size(); ++k)
      if (std::find(by_peer_.begin(), by_peer_.end(), static_cast<int>(k)) != by_peer_.end())
        names.append(names.empty() ? "" : "+").append(transports_[k]->name());
    return names.empty() ? "nothing" : names;
  }

  /// See Witness::given_up.
  std::optional<int> given_up() {
    for (auto& transport : transports_)
      if (const auto peer = transport->witness().given_up()) return peer;
    return {};
  }

  /// Holds it of any of this rank's messages?
  bool any(bool Traits::* trait) const {
    return std::ranges::any_of(by_peer_, [&](int k) { return k >= 0 && transports_[k]->traits().*trait; });
  }

  void abort(const Failure& cause) {
    if (!aborted_) aborted_ = cause;
    for (auto& transport : transports_) transport->abort(cause);
  }
  /// Why this rank gave up at first; none before.
  const Failure& aborted() const { return aborted_; }
  /// See Witness::tells_at_once: of all peers.
  bool tells_at_once() const {
    return std::ranges::all_of(by_peer_, [&](int k) { return k < 0 || transports_[k]->witness().tells_at_once(); });
  }
  /// See Witness::tell.
  bool tell() {
    bool telling = false;
    for (auto& transport : transports_) telling |= transport->witness().tell();
    return telling;
  }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> by_peer_;
  CallLog* log_ = nullptr;
  Failure aborted_;
  std::atomic<std::uint64_t> visits_ = 0;
  std::atomic<const Transport*> visited_ = nullptr;
  std::atomic<int> visited_for_ = -1;
  std::vector<Message*> done_;  // kept, so that progress() allocates nothing
};

inline std::string Router::visited() const {
  const Transport* const transport = visited_.load(std::memory_order_relaxed);
  const int peer = visited_for_.load(std::memory_order_relaxed);
  if (!transport) return {};
  std::string peers;
  for (int rank = 0; rank < size(); ++rank)
    if (peer < 0 ? by_peer_[rank] >= 0 && transports_[by_peer_[rank]].get() == transport : rank == peer)
      peers.append(peers.empty() ? "rank " : ", ").append(std::to_string(rank));
  return std::string(transport->name()) + " (messages with " + (peers.empty() ? "nobody" : peers) + ")";
}

}  // namespace lanecast
