// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/captured_calls.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lanecast {

void CapturedCalls::add(std::uint32_t number, std::shared_ptr<Proxy> proxy, gpu::GraphLife life) {
  calls_.emplace(number, CapturedCall{.proxy = std::move(proxy), .life = std::move(life)});
}

const std::shared_ptr<Proxy>& CapturedCalls::turn_to(std::uint32_t number) {
  if (const auto before = calls_.find(latest_); before != calls_.end()) before->second.behind = number;
  latest_ = number;
  const auto known = calls_.find(number);
  if (known == calls_.end())
    throw InternalError("the device replays captured call " + std::to_string(number) + ", whose graph has ended");
  return known->second.proxy;
}

void CapturedCalls::expect(std::uint32_t launch) const {
  const auto latest = calls_.find(latest_);
  if (latest == calls_.end()) return;
  if (const auto next = calls_.find(latest->second.behind); next != calls_.end()) next->second.proxy->foretell(launch);
}

bool CapturedCalls::may_run() const {
  return std::ranges::any_of(calls_, [](const auto& call) { return !call.second.life.has_ended(); });
}

void CapturedCalls::drop_ended() {
  std::erase_if(calls_, [](const auto& call) { return call.second.life.has_ended(); });
}

}  // namespace lanecast
