// SPDX-License-Identifier: Apache-2.0
// The buffers of one rank's call, and whether the right values came out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "job.h"
#include "runtime/request/call.h"
#include "runtime/request/composed_call.h"

namespace lanecast::simulator {

class Buffers {
 public:
  /// In place, as training calls them: an all-gather's input is this rank's part of its output, and so on.
  Buffers(const Job& job, int rank);

  /// The call that the job describes.
  Call call() const;
  /// The same as a composition, which is to outlive it.
  ComposedCall composed(std::shared_ptr<const Composition> composition) const;
  /// Elements that are not what they should be; 0 where nothing is checked.
  std::size_t wrong() const;

 private:
  using Element = std::int64_t;

  std::size_t elements() const { return job_.bytes / sizeof(Element); }

  const Job& job_;
  int rank_;
  Kind kind_;
  std::vector<Element> real_;  // the full buffer
  std::byte* data_ = nullptr;
};

}  // namespace lanecast::simulator
