// SPDX-License-Identifier: Apache-2.0
// Sends and receives posted together. None waits for another, so no order of them can deadlock.
#pragma once

#include <memory>
#include <vector>

#include "runtime/agree/message_counts.h"
#include "runtime/request/transfer.h"
#include "runtime/watch/under_way.h"
#include "runtime/watch/work.h"
#include "runtime/wires/router.h"

namespace lanecast {

class Batch final : public UnderWay {
 public:
  Batch(std::span<const Transfer> transfers, Router& router, MessageCounts& counts, double timeout_s);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void post();
  bool advance() override { return router_.progress(); }
  bool finished() const override { return unfinished_ == 0; }
  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int) const override { return true; }
  /// The first message that is not done.
  std::optional<Want> want(int peer) const override;

  /// Progress: when its last message but the unfinished ones was done.
  const Deadline& deadline() const { return deadline_; }
  /// Hears of the end; null where the caller waits for the batch itself.
  std::shared_ptr<Work> work;

 private:
  struct PostedTransfer final : Posted {
    void arrived() override;
    Batch* batch = nullptr;
    Transfer transfer;
    Span span;
    std::optional<std::uint64_t> ordinal;
    bool done = false;
  };

  Router& router_;
  MessageCounts& counts_;
  std::vector<PostedTransfer> parts_;
  std::size_t unfinished_;
  Deadline deadline_;
};

}  // namespace lanecast
