// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/attendance.h"

#include <algorithm>

#include "base/error.h"
#include "transport/mpi/wait_for.h"

namespace lanecast {

Attendance::Attendance(MpiApi& api, Event event)
    : event_(std::move(event)),
      rank_(api.rank(event_.comm)),
      size_(api.size(event_.comm)),
      mine_(std::make_unique<std::uint64_t>(event_.round)),
      rounds_(size_),
      listening_(size_),
      here_(size_),
      sends_(api.requests()),
      receives_(api.requests()) {}

Attendance::~Attendance() {
  completions_.clear();
  sends_->test(completions_);
  if (!sends_->empty()) static_cast<void>(mine_.release());  // MPI may read it until the process ends
}

void Attendance::look(double waited_s) {
  constexpr double kSoon_s = 1;
  if (waited_s < std::min(kSoon_s, event_.timeout_s / 4)) return;
  if (!told_) tell();
  take_arrived();
  if (waited_s < event_.timeout_s) return;
  throw TimeoutError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " waited " +
                     seconds_text(event_.timeout_s) + " for " + missing() + " " + event_.wanted);
}

void Attendance::tell() {
  told_ = true;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    listen_to(peer);
    sends_->send({event_.comm, peer, event_.tag, mine_.get(), sizeof(std::uint64_t)}, nullptr);
  }
}

void Attendance::listen_to(int peer) {
  if (listening_[peer]) return;
  listening_[peer] = true;
  std::uint64_t& round = rounds_[peer];
  receives_->receive({event_.comm, peer, event_.tag, &round, sizeof round}, &round);
}

void Attendance::take_arrived() {
  completions_.clear();
  receives_->test(completions_);
  for (const MpiCompletion& completion : completions_) {
    const auto peer = static_cast<int>(static_cast<const std::uint64_t*>(completion.owner) - rounds_.data());
    listening_[peer] = false;
    here_[peer] = rounds_[peer] == event_.round;
    if (!here_[peer]) listen_to(peer);  // it was told in an earlier round, for which this rank was late
  }
}

void Attendance::take(std::span<const std::uint8_t> told) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && told[peer] != 0 && !here_[peer]) listen_to(peer);
  const auto taken = [&] {
    take_arrived();
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && told[peer] != 0 && !here_[peer]) return false;
    return true;
  };
  wait_until(taken, event_.timeout_s, [&](double waited_s) {
    if (waited_s >= event_.timeout_s)
      throw TimeoutError("rank " + std::to_string(rank_) + ": what other ranks have told does not arrive over MPI");
  });
}

std::string Attendance::missing() const {
  constexpr int kNamed = 16;
  std::string names;
  int others = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || here_[peer]) continue;
    if (++others <= kNamed) names += (names.empty() ? "rank " : ", ") + std::to_string(peer);
  }
  if (others > kNamed) names += " and " + std::to_string(others - kNamed) + " more";
  return names.empty() ? "the others" : names;
}

}  // namespace lanecast
