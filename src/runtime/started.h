// SPDX-License-Identifier: Apache-2.0
// A call that was made without waiting for it.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/communicator.h"

namespace lanecast {

struct Communicator::Started {
  std::shared_ptr<Execution> execution;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  bool running = false;  // the calls before it have finished
  std::chrono::steady_clock::time_point last_progress;
  std::shared_ptr<Work> work = std::make_shared<Work>();
};

}  // namespace lanecast
