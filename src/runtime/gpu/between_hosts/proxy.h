// SPDX-License-Identifier: Apache-2.0
// The proxy of a program: it sends what all lanes have put, receives what they are to take, and tells them so. It makes
// no call of the GPU's driver; where a user has decided that a library below may, it names the GPU.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/carried.h"
#include "runtime/agree/ordered_call.h"
#include "runtime/gpu/between_hosts/announced_launches.h"
#include "runtime/gpu/between_hosts/count_notes.h"
#include "runtime/gpu/between_hosts/launch_counts.h"
#include "runtime/gpu/between_hosts/network_memory.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// A launch of a program, with its turn among the others.
struct CallBetweenHosts {
  std::shared_ptr<const BoundProgram> program;
  const void* in = nullptr;
  void* out = nullptr;
  std::shared_ptr<NetworkMemory> memory;
  std::shared_ptr<const LaunchCounts> counts;  // of a program whose counts come with the launch
  std::uint32_t captured = 0;  // its number among those that graphs have captured, from 1; 0: it is none

  const Signature& signature() const { return counts ? counts->signature() : program->signed_call(); }
};

class Proxy final : public OrderedCall {
 public:
  struct ProxySurroundings {
    std::shared_ptr<AnnouncedLaunches> launches;
    std::shared_ptr<gpu::Device> device;  // where a library below asks the thread for it; else null
    std::function<void()> raise_fault;    // throws what kernels have met
    std::size_t window = 0;               // bytes under way that keep a NIC busy, beside a message behind them
  };
  Proxy(CallBetweenHosts call, ProxySurroundings around, Router& router);

  /// Once for each launch of the program.
  void start(const std::byte* in, std::byte* out, std::uint32_t stamp) override;
  /// All launches before have been through, and the next one may be of this call: then puts need not wait until it is
  /// announced and heard. Of another call it says what is true.
  void foretell(std::uint32_t launch) const;
  bool advance() override;
  bool finished() const override;
  const Signature& signature() const override { return call_.signature(); }
  const CallRecord& record() const override { return call_.counts ? call_.counts->record() : call_.program->record(); }

  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int peer) const override;
  std::optional<std::uint32_t> launch() const override {
    return around_.launches->is_followed() ? std::optional(launch_) : std::nullopt;
  }
  /// The stream has not come to the call.
  bool on_hold() const override { return !around_.launches->has_begun(launch_); }

 private:
  struct CarriedFlow;
  struct PostedChunk final : Posted {
    void arrived() override { proxy->arrived(*this); }
    Proxy* proxy = nullptr;
    CarriedFlow* flow = nullptr;
    Span span;
    std::uint32_t chunk = 0;
    std::int64_t posted_ns = 0;  // where steps are recorded
    bool under_way = false, done = false;
  };
  /// A carried message of a channel, chunk by chunk.
  struct CarriedFlow {
    std::size_t number = 0;  // of the message among the program's
    std::uint32_t channel = 0;
    std::uint32_t delay = 0;  // of what puts it
    std::vector<PostedChunk> slots;
    // Of this launch.
    std::uint32_t posted = 0;   // chunks
    std::uint32_t through = 0;  // that have left their slots, or have come, and all before them
    std::uint32_t taken = 0;    // that lanes have taken, of a message to here
    std::uint32_t lane = 0;  // of the channel: those before it have said that they have put, or taken, the next chunk
  };

  /// Null: nobody asks for it.
  std::shared_ptr<gpu::Device> context() const { return flows_.empty() ? nullptr : around_.device; }
  int a_peer() const { return flows_.empty() ? -1 : call_.program->program().carried[0].peer; }
  /// A program with the counts of a launch.
  struct CountedLaunch {
    explicit CountedLaunch(Program made) : program(std::move(made)), chunks(program) {}
    CountedLaunch(const CountedLaunch&) = delete;
    CountedLaunch& operator=(const CountedLaunch&) = delete;
    Program program;
    CarriedChunks chunks;
  };

  const Program& program() const { return counted_ ? counted_->program : call_.program->program(); }
  const Carried& carried(const CarriedFlow& flow) const { return program().carried[flow.number]; }
  CarriedChunk chunk_of(const CarriedFlow& flow, std::uint32_t chunk) const {
    const CarriedChunks& all = counted_ ? counted_->chunks : call_.program->carried_chunks();
    return all.of(flow.number, chunk, flow.channel);
  }
  const Slicing& slicing() const { return call_.program->program().slicing; }
  std::uint32_t chunks(const CarriedFlow& flow) const { return carried(flow).memory.chunks; }
  /// Not before its note, unless a message of another length than the receive's is an error that comes behind the note:
  /// a transport that has to call for messages would lose the time of that one.
  bool may_receive_from(int peer) const {
    return !notes_ || notes_->heard_from(peer) || router_.to(peer).traits().compares_stamps;
  }
  /// By the counts, once they are known.
  void count();
  void begin_flows();
  /// May one more message leave? Those under way together share the NIC: each comes later, and so does what its channel
  /// has to do then. One after the other they leave the channels apart, and the GPU works while the NIC does.
  /// A message that was put in an earlier tick than all under way always may: those can stay until their receivers have
  /// a free slot, which may depend on it, and lanes of other channels may be any number of chunks behind.
  bool has_room(const CarriedFlow& flow) const;
  /// Have all lanes with a share said so of this chunk?
  bool all_say(CarriedFlow& flow, std::uint32_t chunk);
  bool may_send(CarriedFlow& flow) {
    return flow.posted < chunks(flow) && flow.posted - flow.through < flow.slots.size() && has_room(flow) &&
           all_say(flow, flow.posted);
  }
  /// Sends what may leave, the earliest tick's first: channels that fall behind would have the network for themselves
  /// at the end, and a few lanes do not keep it busy.
  bool send_ready();
  bool follow_receive(CarriedFlow& flow);
  /// Posts the next chunk; an empty one is through at once.
  void post(CarriedFlow& flow);
  void arrived(PostedChunk& chunk);
  void pass(CarriedFlow& flow);
  void tell(const CarriedFlow& flow) const;
  void record(const PostedChunk& chunk) const;
  std::uint64_t tag_number(const CarriedFlow& flow, std::uint32_t chunk) const;

  CallBetweenHosts call_;
  ProxySurroundings around_;
  Router& router_;
  std::uint32_t stamp_ = 0;
  std::uint32_t launch_ = 0;  // its number, as the device counts
  // For whom this rank's GPU may wait. Only the GPU knows how far they are, so the call is under way until its lanes
  // have ended: who waits for whom would not be seen otherwise, where nothing of the call is left for this proxy.
  std::vector<int> neighbours_;
  std::unique_ptr<const CountedLaunch> counted_;  // of counts that come with the launch
  std::unique_ptr<CountNotes> notes_;             // of those that each rank knows for itself
  bool awaits_counts_ = false;                    // which the launch will tell when it has begun
  std::vector<CarriedFlow> flows_;
  std::size_t unfinished_ = 0;          // flows
  std::vector<std::uint32_t> sending_;  // messages under way: the ticks in which they were put
  std::size_t sending_bytes_ = 0;
};

}  // namespace lanecast
