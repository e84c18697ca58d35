// SPDX-License-Identifier: Apache-2.0
// Notes as letters, which come without a posted receive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "transport/emulated/mail.h"
#include "transport/notes.h"

namespace lanecast::emulated {

class EmulatedNoteCarrier final : public lanecast::NoteCarrier {
 public:
  /// move: takes letters and pushes what waits.
  EmulatedNoteCarrier(int rank, std::vector<Mail>& mail, std::function<void()> move)
      : rank_(rank), mail_(mail), move_(std::move(move)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(mail_.size()); }
  void listen_to(int /*rank*/) override {}
  bool has_unheard() override { return false; }  // all are heard
  void send(int rank, std::span<const std::byte> note) override { mail_[rank].send({.letter = Letter::note}, note); }
  bool sending() override {
    move_();
    return std::ranges::any_of(mail_, [](const Mail& mail) { return !mail.sent(); });
  }
  void take_arrived(const Take& take) override {
    move_();
    while (!arrived_.empty()) {
      const auto [rank, note] = std::move(arrived_.front());
      arrived_.pop_front();
      take(rank, note);
    }
  }
  void arrived(int rank, std::span<const std::byte> note) {
    arrived_.emplace_back(rank, std::vector<std::byte>(note.begin(), note.end()));
  }

 private:
  int rank_;
  std::vector<Mail>& mail_;
  std::function<void()> move_;
  std::deque<std::pair<int, std::vector<std::byte>>> arrived_;  // by rank
};

static_assert(kMostInLetter >= lanecast::NoteCarrier::kMostBytes);

}  // namespace lanecast::emulated
