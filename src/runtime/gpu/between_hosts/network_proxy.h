// SPDX-License-Identifier: Apache-2.0
// The host's half of a call on a GPU by messages: it sends what the device says is there, receives what the device
// waits for, and makes no call of the GPU's driver; where a user has decided that a library below may, it names the
// GPU.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/agree/ordered_call.h"
#include "runtime/gpu/between_hosts/chunk_channel.h"
#include "runtime/gpu/between_hosts/device_plan.h"
#include "runtime/wires/router.h"

namespace lanecast {

class NetworkProxy final : public OrderedCall {
 public:
  struct HostHalf {
    std::shared_ptr<const DevicePlan> plan;
    std::shared_ptr<ChunkChannels> channels;
    std::uint64_t first_channel = 0;      // of chunk 0; the others take turns
    std::shared_ptr<gpu::Device> device;  // where a library below asks the thread for it; else null
    std::function<void()> raise_fault;    // throws what kernels have met
  };
  NetworkProxy(HostHalf half, Router& router);

  void start(const std::byte* in, std::byte* out, std::uint32_t stamp) override;
  bool advance() override;
  bool finished() const override { return chunks_left_ == 0; }
  const Signature& signature() const override { return half_.plan->signature(); }
  const CallRecord& record() const override { return half_.plan->record(); }

  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int peer) const override;
  /// The stream has not come to the call.
  bool on_hold() const override;

 private:
  class InContext;
  struct Flight;
  struct PostedMessage final : Posted {
    void arrived() override { proxy->arrived(*this); }
    NetworkProxy* proxy = nullptr;
    Flight* flight = nullptr;
    Span span;
    std::size_t message = 0;
    std::int64_t posted_ns = 0;  // where steps are recorded
    bool posted = false, done = false;
  };
  /// A chunk under way.
  struct Flight {
    Chunk chunk{0, 0};  // of 0: none
    ChunkChannel* channel = nullptr;
    std::vector<ChannelMessage> messages;
    std::vector<PostedMessage> posts;  // of each message
    std::size_t sends = 0;             // messages that are; the others are receives
    std::size_t unfinished = 0;
    std::size_t next_send = 0;  // message from which on no send is posted
    std::size_t next_come = 0;  // message up to which all receives have come
    std::uint64_t said = 0, go_on = 0;

    bool flies() const { return chunk.count > 0; }
    /// How often the device speaks: the chunk has begun, each of the sends is there, it has ended.
    std::uint64_t says() const { return sends + 2; }
    bool landed() const { return said == says() && unfinished == 0; }
  };

  void begin(Flight& flight, std::int32_t chunk);
  void end(Flight& flight);
  void post(Flight& flight, std::size_t message);
  /// Posts what the device has said; true when it has said something.
  bool follow(Flight& flight);
  void arrived(PostedMessage& post);
  void record(const PostedMessage& post) const;
  void let_go_on(Flight& flight) const;
  const Step& step_of(const ChannelMessage& message) const { return half_.plan->plan().steps[message.step]; }
  bool sends(const ChannelMessage& message) const { return step_of(message).kind == StepKind::send; }

  HostHalf half_;
  Router& router_;
  std::uint32_t stamp_ = 0;
  std::array<Flight, kChunkChannels> flights_;  // of the channels, from that of the first chunk on
  int chunks_left_ = 0;
};

}  // namespace lanecast
