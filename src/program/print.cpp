// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/dtype.h"
#include "program/program.h"

namespace lanecast {
namespace {

constexpr std::array<std::string_view, 5> kOperations{"put", "take", "take_reduce", "copy", "reduce"};

/// How the compiler spells the operation of a number: "lanecast::gpu::Operation::put"; a cast for one that none has.
template <gpu::Operation operation>
constexpr std::string_view spelled() {
  constexpr std::string_view kBefore = "operation = ";
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find(kBefore) + kBefore.size());
  return text.substr(0, text.find_first_of(";]"));
}

template <gpu::Operation operation>
constexpr bool is_named(std::string_view name) {
  std::string_view text = spelled<operation>();
  if (!text.ends_with(name)) return false;
  text.remove_suffix(name.size());
  return text.ends_with("::");
}

template <std::size_t... k>
constexpr bool all_are_named(std::index_sequence<k...> /*numbers*/) {
  return (is_named<static_cast<gpu::Operation>(k)>(kOperations[k]) && ...);
}

static_assert(all_are_named(std::make_index_sequence<kOperations.size()>()), "as Operation has them, in its order");
static_assert(spelled<static_cast<gpu::Operation>(kOperations.size())>().starts_with('('),
              "Operation has one more, whose name is missing here");

std::string counted(std::size_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

/// others: the letter of the other queue.
std::string describe(const Program& program, const gpu::Instruction& what, char others) {
  const bool adds = adds_up(what);
  std::string text{name_of(what.operation)};
  if (adds) text += " (" + std::string(name_of(static_cast<ReduceOp>(what.op))) + ")";
  if (talks(what))
    text += (what.operation == gpu::Operation::put ? " to rank " : " from rank ") +
            std::to_string(program.peer_of(what)) + (what.carried ? " of another host" : "");
  else if (adds)
    text += " of " + counted(what.sources, "source");
  text += ", " + counted(bytes_of(program, what), "byte");
  if (what.runs > 1) text += " in " + counted(what.runs, "run");
  if (!what.ends) text += ", to be continued";
  if (what.delay) text += ", " + counted(what.delay, "chunk") + " behind";
  if (what.needs) {
    text += std::string(", after ") + others + std::to_string(what.needs - 1);
    if (what.needs_back) text += " of " + counted(what.needs_back, "tick") + " before";
    if (what.joined && what.operation == gpu::Operation::put) text += " and joined to it";
  }
  return text;
}

}  // namespace

std::string_view name_of(gpu::Operation operation) { return kOperations[static_cast<std::size_t>(operation)]; }

std::optional<gpu::Operation> operation_from(std::string_view name) {
  const auto found = std::ranges::find(kOperations, name);
  if (found == kOperations.end()) return std::nullopt;
  return static_cast<gpu::Operation>(found - kOperations.begin());
}

std::string describe(const Program& program, const Plan& plan) {
  const auto lanes = static_cast<std::size_t>(program.slicing.lanes);
  const auto chunks = static_cast<std::size_t>(program.slicing.chunks);
  std::string text = counted(lanes, "lane") + " of " + counted(chunks, "chunk") + ", " +
                     counted(program.ticks(), "tick") + ", messages of up to " +
                     counted(program.longest_message, "byte") + ", " + counted(program.all_scratch_bytes(), "byte") +
                     " of scratch memory\n";
  const auto append = [&](const char* name, const std::vector<gpu::Instruction>& queue, char others) {
    text += std::string(name) + ":\n";
    for (std::size_t k = 0; k < queue.size(); ++k)
      text += std::string("  ") + name[0] + std::to_string(k) + ": " + describe(program, queue[k], others) + "  [" +
              describe(plan, queue[k].step) + "]\n";
  };
  append("puts", program.puts, 't');
  append("takes", program.takes, 'p');
  return text;
}

}  // namespace lanecast
