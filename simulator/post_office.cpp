// SPDX-License-Identifier: Apache-2.0
#include "post_office.h"

#include <algorithm>
#include <string>

namespace lanecast::simulator {

std::size_t PostOffice::Hash::operator()(const Address& address) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads what differs in few bits
  const std::uint64_t ends = static_cast<std::uint64_t>(address.from) << 32 | static_cast<std::uint32_t>(address.to);
  const std::uint64_t mixed = (ends ^ address.tag * kOdd) * kOdd;
  return mixed ^ mixed >> 32;
}

void PostOffice::post(const Address& address, const Posting& posting) {
  const auto [found, is_first] = waiting_.try_emplace(address, posting);
  if (is_first) return;
  const Posting other = found->second;
  waiting_.erase(found);
  if (other.is_send == posting.is_send)
    throw InternalError("simulator: two messages from rank " + std::to_string(address.from) + " to rank " +
                        std::to_string(address.to) + " have one tag, " + std::to_string(address.tag));
  const Posting& send = posting.is_send ? posting : other;
  const Posting& receive = posting.is_send ? other : posting;
  if (send.message->bytes != receive.message->bytes)
    raise_mismatch(*receive.message, address.to, std::to_string(send.message->bytes), UINT64_MAX, /*same_stamp=*/true);
  network_.carry({address.from, address.to, send.message, receive.message}, std::max(send.at_s, receive.at_s));
}

}  // namespace lanecast::simulator
