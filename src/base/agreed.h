// SPDX-License-Identifier: Apache-2.0
// Steps of a collective start-up that may fail on one rank alone, such as a misspelt variable on one host.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/error.h"

namespace lanecast {

/// What `step` returns. Collective: where it throws on one rank, every rank throws, so that nobody waits for a rank
/// that has given up.
template <class Step>
auto agreed(const Bootstrap& bootstrap, const Step& step) -> decltype(step()) {
  decltype(step()) result{};
  std::string error;
  std::exception_ptr mine;
  try {
    result = step();
  } catch (const std::exception& e) {
    error = e.what();
    mine = std::current_exception();
  }
  const std::vector<std::string> errors = bootstrap.all_gather_strings(error);
  if (mine) std::rethrow_exception(mine);
  for (int rank = 0; rank < bootstrap.size; ++rank)
    if (!errors[rank].empty()) throw UsageError("rank " + std::to_string(rank) + " refuses: " + errors[rank]);
  return result;
}

}  // namespace lanecast
