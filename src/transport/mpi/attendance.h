// SPDX-License-Identifier: Apache-2.0
// Who has come to a collective of MPI's that does not end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/mpi/api.h"

namespace lanecast {

/// MPI's own collectives have no deadline and name nobody. So a rank that has waited in one for long tells the others
/// that it is there, and hears who else is; at the deadline the rest is named. Nothing is sent where all come soon.
class Attendance {
 public:
  /// round: of the collective among those on `comm`, equal on all ranks. wanted: what others have to do, in words.
  struct Event {
    MpiComm comm{};
    int tag = 0;
    std::uint64_t round = 0;
    double timeout_s = 0;
    std::string wanted;
  };
  Attendance(MpiApi& api, Event event);
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  /// To be called while the collective is under way. Throws TimeoutError, with the names, after the deadline.
  void look(double waited_s);
  /// Has this rank told the others?
  bool told() const { return told_; }
  /// told: 1 for each rank that has. Takes what others have told, so that nothing of it stays on the communicator.
  void take(std::span<const std::uint8_t> told);

 private:
  void tell();
  void listen_to(int peer);
  void take_arrived();
  std::string missing() const;

  Event event_;
  int rank_, size_;
  std::unique_ptr<std::uint64_t> mine_;  // the round, as it is sent
  std::vector<std::uint64_t> rounds_;    // of each rank, as they arrive
  std::vector<bool> listening_, here_;
  bool told_ = false;
  std::unique_ptr<MpiRequests> sends_, receives_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
