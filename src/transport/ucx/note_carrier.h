// SPDX-License-Identifier: Apache-2.0
// Notes as UCX's active messages, which arrive without a posted receive.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "transport/notes.h"
#include "transport/ucx/worker.h"

namespace lanecast::ucx {

class UcxNoteCarrier final : public lanecast::NoteCarrier {
 public:
  explicit UcxNoteCarrier(Worker& worker);

  int rank() const override { return worker_.rank(); }
  int size() const override { return worker_.size(); }
  /// So that the peer's end is noticed.
  void listen_to(int rank) override { worker_.to(rank); }
  bool has_unheard() override { return false; }  // all are heard
  void send(int rank, std::span<const std::byte> note) override;
  bool sending() override;
  void take_arrived(const Take& take) override;

  /// Has UCX taken all notes?
  bool sent() const { return under_way_ == 0; }

 private:
  Worker& worker_;
  std::deque<std::pair<int, std::string>> arrived_;  // by rank
  int under_way_ = 0;
};

}  // namespace lanecast::ucx
