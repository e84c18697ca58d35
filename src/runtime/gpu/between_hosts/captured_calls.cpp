// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/captured_calls.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lanecast {

void CapturedCalls::add(std::uint32_t number, std::shared_ptr<Proxy> proxy, gpu::GraphLife life) {
  calls_.emplace(number, CapturedCall{std::move(proxy), std::move(life)});
}

const std::shared_ptr<Proxy>& CapturedCalls::find(std::uint32_t number) const {
  const auto known = calls_.find(number);
  if (known == calls_.end())
    throw InternalError("the device replays captured call " + std::to_string(number) + ", whose graph has ended");
  return known->second.proxy;
}

bool CapturedCalls::may_run() const {
  return std::ranges::any_of(calls_, [](const auto& call) { return !call.second.life.has_ended(); });
}

void CapturedCalls::drop_ended() {
  std::erase_if(calls_, [](const auto& call) { return call.second.life.has_ended(); });
}

}  // namespace lanecast
