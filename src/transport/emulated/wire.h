// SPDX-License-Identifier: Apache-2.0
// What ranks send each other as messages of queue pairs. Short ones come as they are; a long one is announced, called
// for by the receive that it meets, and then comes in fragments. One of a GPU's memory comes as one put, and a receive
// calls for it as soon as it is posted: where that is before the send, the put is all that the message takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/emulated/port.h"

namespace lanecast::emulated {

enum class Letter : std::uint32_t {
  // Of both `other`: so many messages have been put unannounced; their puts may come later.
  whole,     // the message itself
  announce,  // `own`: the sender's number for it; `in_gpu`
  call_for,  // `other`: that number, 0 where nothing has been announced; `own`: the receiver's; place: in GPU memory
  fragment,  // `other`: the receiver's number; in order
  put_done,  // `other`: likewise: all of it is there; `own`: the sender's number, 0 where nothing has been announced
  note,
  goodbye,  // the last
};

struct Envelope {
  Letter letter{};
  std::uint32_t stamp = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // of the whole message
  std::uint64_t own = 0, other = 0;
  RegisteredPlace place{};
  std::uint32_t in_gpu = 0;
};

inline constexpr std::size_t kMostInLetter = kLongestMessage - sizeof(Envelope);
static_assert(kMostInLetter % 8 == 0, "fragments are cut at multiples of 8 bytes");
static_assert(sizeof(Envelope) <= kQueueShapes[1].message_bytes);

}  // namespace lanecast::emulated
