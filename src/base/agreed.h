// SPDX-License-Identifier: Apache-2.0
// Steps of a collective start-up that may fail on one rank alone, such as a misspelt variable on one host.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bootstrap.h"
#include "base/error.h"

namespace lanecast {

/// What `step` returns. Collective: where it throws on one rank, every rank throws, so that nobody waits for a rank
/// that has given up; all have called `undo` before. That may be collective too.
template <class Step, class Undo>
auto agreed(const Bootstrap& bootstrap, const Step& step, const Undo& undo) -> decltype(step()) {
  std::optional<decltype(step())> result;
  std::string error;
  std::exception_ptr mine;
  try {
    result.emplace(step());
  } catch (const std::exception& e) {
    error = e.what();
    if (error.empty()) error = "a failure without words";  // empty is none
    mine = std::current_exception();
  }
  const std::vector<std::string> errors = bootstrap.all_gather_strings(error);
  const auto refusal = std::ranges::find_if_not(errors, &std::string::empty);
  if (refusal == errors.end()) return *std::move(result);
  undo();
  if (mine) std::rethrow_exception(mine);
  throw UsageError(bootstrap.name_of(static_cast<int>(refusal - errors.begin())) + " refuses: " + *refusal);
}

template <class Step>
auto agreed(const Bootstrap& bootstrap, const Step& step) -> decltype(step()) {
  return agreed(bootstrap, step, [] {});
}

}  // namespace lanecast
