// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of CUDA tensors.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gil.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "backend.h"
#include "types.h"

namespace lanecast_torch {
namespace {

std::string pair_name(const std::vector<int>& ranks) {
  return std::to_string(ranks[0]) + " and " + std::to_string(ranks[1]);
}

}  // namespace

std::shared_ptr<Engine> Backend::make_pair(c10::Device device, int peer) {
  const std::vector<int> ranks{std::min(getRank(), peer), std::max(getRank(), peer)};
  const auto options = options_of_child(nullptr);
  options->take_part(getSize(), ranks);
  options->whose_ranks = "; its ranks 0 and 1 are ranks " + pair_name(ranks) +
                         " of the group, whose first message brings the two together";
  const auto store = c10::make_intrusive<c10d::PrefixStore>("lanecast/messages of " + pair_name(ranks), store_);
  const int rank = getRank() == ranks[1];
  auto engine = std::make_shared<Engine>(StoreBootstrap(store, rank, 2, options->timeout), rank, 2, *options);
  engine->open(device);
  return engine;
}

std::shared_ptr<Engine> Backend::engine_for_messages(c10::Device device, int peer) {
  const lanecast::WithoutGil unlocked;
  // Both ranks of a pair know of it, since it was made by both in the midst of one call. So they decide alike.
  if (auto pair = pairs_.if_made(peer)) return pair;
  if (engine_->has_messages() || peer == getRank()) return engine_;
  // All ranks come to a group's first call if that is a batch, as torch asks of programs.
  if (!coalesced_ && getSize() > 2) return pairs_.get(peer, [&] { return make_pair(device, peer); });
  engine_->open(device);
  return engine_;
}

std::vector<std::shared_ptr<Engine>> Backend::engines() const {
  std::vector<std::shared_ptr<Engine>> all = pairs_.all_made();
  all.insert(all.begin(), engine_);
  return all;
}

WorkPtr Backend::move_on_device(const Launch& what, const SideBySide& data, int peer) {
  const bool sends = what.type == OpType::SEND;
  TORCH_CHECK_VALUE(peer >= 0 && peer < getSize(), what.title, ": rank ", getRank(), ": ",
                    sends ? "destination" : "source", " rank ", peer, ": the group has ranks 0 to ", getSize() - 1);
  const c10::Device device = data.buffer().device();
  TORCH_CHECK_VALUE(
      !coalesced_ || coalesced_->messages.empty() || coalesced_->messages[0].work->stream().device() == device,
      what.title, ": rank ", getRank(), ": all messages of a batch have to be on one GPU, and this is on ", device);
  const auto engine = engine_for_messages(device, peer);
  const auto work = c10::make_intrusive<DeviceWork>(describe(what), engine, stream_for(*engine, device, sends, peer));
  const Elements elements = moved(data.buffer());
  static const std::byte nothing{};  // where a message of no elements lies
  void* const at = elements.count ? data.data() : const_cast<std::byte*>(&nothing);
  const int place = engine == engine_ ? peer : static_cast<int>(peer > getRank());
  lanecastMessage_t message{nullptr, nullptr, elements.count, elements.dtype, place, 0};
  if (sends) {
    data.pack();
    work->keep(data.buffer());
    message.sendbuff = at;
  } else {
    work->deliver(data);
    message.recvbuff = at;
  }
  if (coalesced_)
    coalesced_->messages.push_back({work, engine, message});
  else
    launch_messages({{work, engine, message}});
  return keep_if_coalescing(work);
}

c10::Stream Backend::stream_for(Engine& engine, c10::Device device, bool sends, int peer) const {
  if (coalesced_)
    for (const Message& message : coalesced_->messages)
      if (message.engine.get() == &engine) return message.work->stream();
  return engine.message_stream(device, sends, peer);
}

void Backend::launch_messages(const std::vector<Message>& messages) {
  std::map<Engine*, std::vector<lanecastMessage_t>> all;
  for (const Message& message : messages) all[message.engine.get()].push_back(message.what);
  for (const Message& message : messages)
    message.work->launch([&](Work&) {  // the first one of an engine for all of its; they have one stream
      if (auto& its = all[message.engine.get()]; !its.empty())
        message.engine->enqueue_messages(std::exchange(its, {}), message.work->stream());
    });
}

}  // namespace lanecast_torch
