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
  /// In place where that can be, as training calls them: an all-gather's input is this rank's part of its output.
  Buffers(const Job& job, int rank);

  /// The call that the job describes.
  Call call() const;
  /// The same as a composition, which is to outlive it.
  ComposedCall composed(std::shared_ptr<const Composition> composition) const;
  /// Elements that are not what they should be; 0 where nothing is checked.
  std::size_t wrong() const;

 private:
  using Element = std::int64_t;
  static constexpr int kRoot = 0;

  std::size_t elements() const { return job_.bytes / sizeof(Element); }
  std::size_t part() const { return elements() / job_.ranks; }  // of one rank, where each has its own
  /// Does this rank bring that element of the full buffer?
  bool brings(std::size_t element) const;
  std::int64_t expected(std::size_t element) const;

  const Job& job_;
  int rank_;
  Kind kind_;
  std::vector<Element> real_;            // the full buffer
  mutable std::vector<Element> result_;  // of an all-to-all, which takes two
  std::byte* data_ = nullptr;
};

}  // namespace lanecast::simulator
