// SPDX-License-Identifier: Apache-2.0
// The calls that were made on a GPU, by the signatures that kernels know of them: an error says which call it was.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "peers/faults.h"
#include "runtime/gpu/bound_program.h"

namespace lanecast {

class KnownCalls {
 public:
  explicit KnownCalls(int rank) : rank_(rank) {}

  /// signature: equal on ranks that make the same call.
  void add(std::uint16_t signature, const std::string& text);
  void add(const std::shared_ptr<const BoundProgram>& program) { add(program, program->signed_call()); }
  /// A launch of it that has counts of its own.
  void add(const std::shared_ptr<const BoundProgram>& program, const Signature& call);

  /// Throws TimeoutError or MismatchError for what a kernel has met while it waited.
  [[noreturn]] void raise(const peers::PeerFault& fault) const;

 private:
  [[noreturn]] void raise_overlap(const peers::PeerFault& fault) const;
  /// Of counts in the GPU's memory; program: the call's, where it is there.
  [[noreturn]] void raise_counts(const peers::PeerFault& fault, const BoundProgram* program) const;
  [[noreturn]] void raise_mismatch(const peers::PeerFault& fault, const std::string& rank, const std::string& peer,
                                   const std::string& call) const;

  const int rank_;
  mutable std::mutex mutex_;  // a caller adds outside the gate while whoever moves its calls meets a fault
  std::map<std::uint16_t, std::string> texts_;
  std::map<std::uint16_t, std::weak_ptr<const BoundProgram>> programs_;
};

}  // namespace lanecast
