// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/farewells.h"

#include <algorithm>
#include <cstring>

#include "base/running_time.h"
#include "transport/ucx/worker.h"

namespace lanecast::ucx {
namespace {

constexpr unsigned kFarewells = 2;  // of our active messages; 1 is that of notes

/// A rank that waits for us answers when it next looks, in microseconds to 20 ms. One that is elsewhere looks for
/// messages before it sends any, and loses nothing if we are gone by then: it is not worth more.
constexpr auto kPatience = std::chrono::milliseconds(200);

}  // namespace

Farewells::Farewells(Worker& worker) : worker_(worker), peers_(worker.size()) {
  ActiveMessageHandler handler;
  handler.field_mask = ActiveMessageHandler::kId | ActiveMessageHandler::kCallback | ActiveMessageHandler::kArgument;
  handler.id = kFarewells;
  handler.argument = this;
  handler.callback = [](void* argument, const void* header, std::size_t header_bytes, void*, std::size_t,
                        const void*) -> Status {
    FarewellHeader from;
    if (header_bytes != sizeof from) return 0;
    std::memcpy(&from, header, sizeof from);
    static_cast<Farewells*>(argument)->hear(from);
    return 0;
  };
  worker_.ucp().check(worker_.ucp().ucp_worker_set_am_recv_handler(worker_.handle(), &handler),
                      "ucp_worker_set_am_recv_handler");
}

void Farewells::hear(const FarewellHeader& header) {
  if (header.rank < 0 || header.rank >= worker_.size()) return;
  Peer& peer = peers_[header.rank];
  if (header.word == FarewellWord::answer) {
    peer.answered = true;
    return;
  }
  peer.left = true;
  if (!peer.said) heard_.push_back(header.rank);  // two that leave need no more of each other
}

void Farewells::answer_heard() {
  // One to which there is no connection is answered when there is: it was heard ahead of this rank's first call.
  std::erase_if(heard_, [this](int rank) {
    if (!worker_.is_connected(rank)) return !worker_.failure(rank).empty();
    send(rank, FarewellWord::answer);
    return true;
  });
}

void Farewells::send(int peer, FarewellWord word) {
  RequestParams params;
  params.field_mask = RequestParams::kCallback | RequestParams::kFlags | RequestParams::kMemoryType;
  params.flags = RequestParams::kEagerCopied;
  params.callback.sent = [](void* request, Status, void*) { Ucp::loaded().ucp_request_free(request); };
  const FarewellHeader header{worker_.rank(), word};
  worker_.ucp().ucp_am_send_nbx(worker_.to(peer), kFarewells, &header, sizeof header, nullptr, 0, &params);
}

void Farewells::say() {
  std::vector<int> awaited;
  for (int rank = 0; rank < worker_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.owed || peer.left || !worker_.is_connected(rank)) continue;
    peer.said = true;
    send(rank, FarewellWord::farewell);
    awaited.push_back(rank);
  }
  const auto all_have_heard = [&] {
    std::erase_if(awaited, [this](int rank) {
      return peers_[rank].answered || peers_[rank].left || !worker_.failure(rank).empty();
    });
    return awaited.empty();
  };
  // However much still comes from one of them.
  for (Countdown left(kPatience); !all_have_heard() && !left.over();) worker_.progress();
  for (Countdown left(kPatience); worker_.progress() && !left.over();) continue;
}

}  // namespace lanecast::ucx
