// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "program/program.h"

namespace lanecast {
namespace {

constexpr std::array<std::string_view, 5> kOperations{"put", "take", "take_reduce", "copy", "reduce"};  // Operation

std::string describe(const gpu::Instruction& what, std::size_t k) {
  std::string text = std::to_string(k) + ": " + std::string(name_of(what.operation));
  if (what.operation == gpu::Operation::put)
    text += " to rank " + std::to_string(what.peer);
  else if (talks(what))
    text += " from rank " + std::to_string(what.peer);
  text += ", " + std::to_string(what.runs) + (what.runs == 1 ? " run" : " runs");
  if (what.operation == gpu::Operation::reduce) text += " of " + std::to_string(what.sources) + " sources";
  if (what.delay) text += ", " + std::to_string(what.delay) + " chunks behind";
  if (what.needs) {
    text += ", once the other queue has ended its " + std::to_string(what.needs - 1);
    if (what.needs_back) text += " of " + std::to_string(what.needs_back) + " ticks before";
  }
  return text;
}

}  // namespace

std::string_view name_of(gpu::Operation operation) { return kOperations[static_cast<std::size_t>(operation)]; }

std::string describe(const Program& program, const Plan& plan) {
  std::string text = std::to_string(program.slicing.lanes) + " lanes, " + std::to_string(program.slicing.chunks) +
                     " chunks each, scratch " + std::to_string(program.all_scratch_bytes()) + " bytes\n";
  for (const auto& [name, queue] : {std::pair("puts", &program.puts), std::pair("takes", &program.takes)}) {
    text += std::string(name) + ":\n";
    for (std::size_t k = 0; k < queue->size(); ++k)
      text += "  " + describe((*queue)[k], k) + "  [" + describe(plan, (*queue)[k].step) + "]\n";
  }
  return text;
}

}  // namespace lanecast
