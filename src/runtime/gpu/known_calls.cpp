// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/known_calls.h"

#include <array>

#include "base/error.h"

namespace lanecast {
namespace {

constexpr std::array<std::string_view, 3> kPlaces{
    "where a piece was to arrive over peer memory", "in a barrier over peer memory",
    "where a chunk was to be handed over in peer memory"};  // gpu::WaitKind, of collectives

/// Of a message between two ranks.
[[noreturn]] void raise_message_fault(const peers::PeerFault& fault, const std::string& rank, const std::string& peer) {
  const bool sends = fault.place == gpu::WaitKind::sent;
  const std::string message = std::string(sends ? "a send of " : "a recv of ") + std::to_string(fault.bytes) +
                              " bytes " + (sends ? "to " : "from ") + peer + " over peer memory";
  if (fault.what == gpu::Fault::mismatch)
    throw MismatchError(rank + ": " + message + " met a send of " + std::to_string(fault.found_bytes) +
                        " bytes; messages between two ranks of GPUs match in the order of the calls, whatever else " +
                        "lies between, and have to be of equal size");
  throw TimeoutError(rank + " waited for " + peer + " in " + message +
                     ", until the deadline; is that rank alive, and " + "has it called " + (sends ? "recv" : "send") +
                     " for it, not behind a message that waits for " +
                     "this rank? What would wait for each other belongs into one group");
}

}  // namespace

void KnownCalls::add(std::uint16_t signature, const std::string& text) {
  const std::lock_guard lock(mutex_);
  texts_.try_emplace(signature, text);
}

void KnownCalls::add(const std::shared_ptr<const BoundProgram>& program, const Signature& call) {
  const std::uint16_t signature = program->signature(call);
  add(signature, call.text);
  const std::lock_guard lock(mutex_);
  programs_[signature] = program;
}

void KnownCalls::raise(const peers::PeerFault& fault) const {
  const std::lock_guard lock(mutex_);
  const std::string rank = "rank " + std::to_string(rank_);
  if (fault.what == gpu::Fault::overlap) raise_overlap(fault);
  const auto program = programs_.find(fault.signature);
  const auto bound = program == programs_.end() ? nullptr : program->second.lock();
  if (fault.what == gpu::Fault::counts) raise_counts(fault, bound.get());
  const bool by_program = fault.place == gpu::WaitKind::program;
  const int waited_for = by_program && bound ? bound->plan().steps[fault.step].peer : fault.peer;
  const std::string peer = "rank " + std::to_string(waited_for);
  if (fault.place == gpu::WaitKind::sent || fault.place == gpu::WaitKind::received)
    raise_message_fault(fault, rank, peer);
  const auto known = texts_.find(fault.signature);
  const std::string call = known == texts_.end() ? "a call that it has made before" : known->second;
  if (fault.what == gpu::Fault::mismatch) raise_mismatch(fault, rank, peer, call);
  if (by_program) {
    throw TimeoutError(rank + " waited for " + peer + " in " +
                       (bound ? describe(bound->plan(), fault.step) : "step " + std::to_string(fault.step)) +
                       ", chunk " + std::to_string(fault.chunk) + " of a lane, of " + call +
                       ", until the deadline; is that rank alive, and has it run the same composition?");
  }
  throw TimeoutError(rank + " waited for " + peer + " in " + call + ", " +
                     std::string(kPlaces[static_cast<int>(fault.place)]) +
                     ", until the deadline; is that rank alive, and has it made the same call, with the same algorithm "
                     "and kind of memory?");
}

void KnownCalls::raise_overlap(const peers::PeerFault& fault) const {
  const auto said = [this](std::uint16_t signature, bool replayed) {
    const auto known = texts_.find(signature);
    return (replayed ? "a replay of " : "") + (known == texts_.end() ? "another launch" : known->second);
  };
  throw MismatchError(
      "rank " + std::to_string(rank_) + ": " + said(fault.signature, fault.chunk != 0) + " began on the GPU while " +
      said(fault.found, fault.step != 0) +
      " of this communicator was at work there; its calls and the replays of its " +
      "graphs have to follow each other: launch them on one stream, or have one stream wait for an event of the " +
      "other; or give each a communicator of its own");
}

void KnownCalls::raise_counts(const peers::PeerFault& fault, const BoundProgram* program) const {
  const std::uint32_t inputs = program ? program->program().counted_parts().inputs : 0;
  const bool sends = fault.step < inputs;
  const std::string argument = sends ? "input_split_sizes" : "output_split_sizes";
  const std::string which = argument + "[" + std::to_string(sends ? fault.step : fault.step - inputs) + "]";
  const std::string found = std::to_string(static_cast<std::int64_t>(fault.bytes));
  const std::string most = std::to_string(fault.found_bytes);
  const std::string rank = "rank " + std::to_string(rank_) + ": all_to_all with counts in the GPU's memory: ";
  switch (static_cast<gpu::CountFault>(fault.chunk)) {
    case gpu::CountFault::above_bound:
      throw MismatchError(rank + which + " is " + found + ", which is not from 0 to bound=" + most +
                          "; give a larger bound, equal or not on all ranks");
    case gpu::CountFault::beyond_buffer:
      throw MismatchError(rank + argument + " add up to " + found + " rows, and " + (sends ? "input" : "output") +
                          " has " + most);
    case gpu::CountFault::own_differ:
      throw MismatchError(rank + which + " is " + found + ", and what the rank expects of itself " + most +
                          "; give both the same");
  }
  throw InternalError("a kernel has found an unknown fault of counts");
}

void KnownCalls::raise_mismatch(const peers::PeerFault& fault, const std::string& rank, const std::string& peer,
                                const std::string& call) const {
  const auto other = texts_.find(fault.found);
  throw MismatchError(
      "the ranks have made different calls: " + rank + " has made " + call + ", " + peer + " " +
      (other == texts_.end() ? "another one" : other->second) + "; a GPU's calls have to be made " +
      "in the same order on all ranks, with equal counts, dtype, op and root; and split sizes of all_to_all have " +
      "to be those of the peers");
}

}  // namespace lanecast
