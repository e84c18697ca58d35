// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of CUDA tensors.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "backend.h"
#include "types.h"

namespace lanecast_torch {

WorkPtr Backend::move_on_device(const Launch& what, const SideBySide& data, int peer) {
  const bool sends = what.type == OpType::SEND;
  const c10::Device device = data.buffer().device();
  TORCH_CHECK_VALUE(
      !coalesced_ || coalesced_->messages.empty() || coalesced_->messages[0].work->stream().device() == device,
      what.title, ": rank ", getRank(), ": all messages of a batch have to be on one GPU, and this is on ", device);
  const c10::Stream stream = coalesced_ && !coalesced_->messages.empty() ? coalesced_->messages[0].work->stream()
                                                                         : engine_->message_stream(device, sends, peer);
  const auto work = c10::make_intrusive<DeviceWork>(describe(what), engine_, stream);
  const Elements elements = moved(data.buffer());
  static const std::byte nothing{};  // where a message of no elements lies
  void* const at = elements.count ? data.data() : const_cast<std::byte*>(&nothing);
  lanecastMessage_t message{nullptr, nullptr, elements.count, elements.dtype, peer, 0};
  if (sends) {
    data.pack();
    work->keep(data.buffer());
    message.sendbuff = at;
  } else {
    work->deliver(data);
    message.recvbuff = at;
  }
  if (coalesced_)
    coalesced_->messages.push_back({work, message});
  else
    launch_messages({{work, message}});
  return keep_if_coalescing(work);
}

void Backend::launch_messages(const std::vector<Message>& messages) {
  std::vector<lanecastMessage_t> all;
  for (const Message& message : messages) all.push_back(message.what);
  for (const Message& message : messages)
    message.work->launch([&](Work&) {  // the first one for all; they have one stream
      if (!all.empty()) engine_->enqueue_messages(std::exchange(all, {}), message.work->stream());
    });
}

}  // namespace lanecast_torch
