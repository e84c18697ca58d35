// SPDX-License-Identifier: Apache-2.0
// Calls between hosts that graphs have captured: what the proxy has to know of one that is replayed, for as long as a
// graph may.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "device/gpu/graph_life.h"
#include "runtime/gpu/between_hosts/proxy.h"

namespace lanecast {

class CapturedCalls {
 public:
  /// A number that no other one has.
  std::uint32_t next_number() { return ++numbers_; }
  void add(std::uint32_t number, std::shared_ptr<Proxy> proxy, gpu::GraphLife life);
  /// The one that comes now. Throws InternalError where no graph has captured it.
  const std::shared_ptr<Proxy>& turn_to(std::uint32_t number);
  /// It is through. What came behind it last time is likely to come again, as the launch of that number.
  void expect(std::uint32_t launch) const;
  /// Can a graph replay one of them?
  bool may_run() const;
  bool empty() const { return calls_.empty(); }
  /// Gives back what no graph uses any more. While none is under way, nor has begun unheard; calls the driver.
  void drop_ended();

 private:
  struct CapturedCall {
    std::shared_ptr<Proxy> proxy;
    gpu::GraphLife life;
    std::uint32_t behind = 0;  // number of what came behind it; 0: none
  };
  std::map<std::uint32_t, CapturedCall> calls_;
  std::uint32_t numbers_ = 0, latest_ = 0;
};

}  // namespace lanecast
