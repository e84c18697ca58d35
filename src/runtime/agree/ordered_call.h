// SPDX-License-Identifier: Apache-2.0
// A collective that runs once those before it on its communicator have finished, the same ones on all ranks.
#pragma once

#include "runtime/agree/call_agreement.h"
#include "runtime/watch/call_log.h"
#include "runtime/watch/under_way.h"

namespace lanecast {

class OrderedCall : public UnderWay {
 public:
  /// stamp: of the messages, from CallAgreement::begin(); 0 where calls are not compared.
  virtual void start(const std::byte* in, std::byte* out, std::uint32_t stamp) = 0;
  virtual const Signature& signature() const = 0;
  virtual const CallRecord& record() const = 0;  // without number and times
  std::string_view title() const final { return signature().text; }
  std::optional<Want> want(int peer) const final {
    const OwnCounts* const own = signature().own.get();
    if (!own) return {};
    return Want{.of = Want::Of::counts, .gives = own->gives[peer], .takes = own->takes[peer], .behind = {}};
  }
};

}  // namespace lanecast
