// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/batch.h"

#include <algorithm>

namespace lanecast {

Batch::Batch(std::span<const Transfer> transfers, Router& router, MessageCounts& counts, double timeout_s)
    : router_(router),
      counts_(counts),
      parts_(transfers.size()),
      unfinished_(transfers.size()),
      deadline_{{}, timeout_s} {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    PostedTransfer& part = parts_[k];
    part.batch = this;
    part.transfer = transfers[k];
    part.span = {static_cast<std::byte*>(part.transfer.data), part.transfer.bytes};
    part.peer = part.transfer.peer;
    part.bytes = part.transfer.bytes;
    part.memory = {&part.span, 1};
  }
}

void Batch::post() {
  deadline_.last_progress = std::chrono::steady_clock::now();
  for (PostedTransfer& part : parts_) {
    Transport& transport = router_.to(part.peer);
    part.tag = first_message_tag(transport.traits().max_tag) + static_cast<std::uint64_t>(part.transfer.tag);
    part.ordinal = counts_.add(part.transfer);
    const Router::Visit visit(router_, transport, part.peer);
    if (part.transfer.way == Transfer::Way::send)
      transport.post_send(part);
    else
      transport.post_recv(part);
  }
}

void Batch::PostedTransfer::arrived() {
  done = true;
  batch->deadline_.last_progress = std::chrono::steady_clock::now();
  if (--batch->unfinished_ == 0 && batch->work) batch->work->finish(nullptr);
}

std::string Batch::waiting_for(int peer) const {
  std::string text;
  for (const PostedTransfer& part : parts_) {
    if (part.done || (peer >= 0 && part.peer != peer)) continue;
    if (!text.empty()) return text + "; and more";
    text = describe(part.transfer);
  }
  return text;
}

std::vector<int> Batch::awaited_peers() const {
  std::vector<int> peers;
  for (const PostedTransfer& part : parts_)
    if (!part.done) peers.push_back(part.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::optional<Want> Batch::want(int peer) const {
  const auto part =
      std::ranges::find_if(parts_, [&](const PostedTransfer& one) { return !one.done && one.peer == peer; });
  if (part == parts_.end()) return {};
  const std::optional<std::uint64_t> ordinal = part->ordinal;
  if (!ordinal) return {};
  const bool sends = part->transfer.way == Transfer::Way::send;
  return Want{.of = sends ? Want::Of::receive : Want::Of::send,
              .bytes = part->transfer.bytes,
              .tag = static_cast<std::uint64_t>(part->transfer.tag),
              .ordinal = *ordinal,
              .behind = {}};
}

}  // namespace lanecast
