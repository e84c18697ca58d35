// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/note_carrier.h"

#include <cstring>
#include <memory>

namespace lanecast::ucx {
namespace {

constexpr unsigned kNotes = 1;     // of our active messages
constexpr int kMostRounds = 1024;  // of UCX's progress, each of 8 KiB of a connection: other peers may have much to say

/// A note on its way; UCX reads it until it is sent.
struct NoteUnderWay {
  int* under_way;
  std::string note;
};

}  // namespace

UcxNoteCarrier::UcxNoteCarrier(Worker& worker) : worker_(worker) {
  ActiveMessageHandler handler;
  handler.field_mask = ActiveMessageHandler::kId | ActiveMessageHandler::kCallback | ActiveMessageHandler::kArgument;
  handler.id = kNotes;
  handler.argument = this;
  handler.callback = [](void* argument, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                        const void*) -> Status {
    int rank = -1;
    if (header_bytes == sizeof rank) std::memcpy(&rank, header, sizeof rank);
    auto& carrier = *static_cast<UcxNoteCarrier*>(argument);
    if (rank >= 0 && rank < carrier.size())
      carrier.arrived_.emplace_back(rank, std::string(static_cast<const char*>(data), bytes));
    return 0;
  };
  worker_.ucp().check(worker_.ucp().ucp_worker_set_am_recv_handler(worker_.handle(), &handler),
                      "ucp_worker_set_am_recv_handler");
}

void UcxNoteCarrier::send(int rank, std::span<const std::byte> note) {
  // What has come is read first: at a peer that has gone the note brings about a reset, and what is unread then is
  // lost.
  for (int round = 0; round < kMostRounds && worker_.progress();) ++round;
  if (worker_.has_left(rank)) return;
  const Endpoint endpoint = worker_.to_send_to(rank);
  if (!endpoint) return;
  auto sending =
      std::make_unique<NoteUnderWay>(&under_way_, std::string(reinterpret_cast<const char*>(note.data()), note.size()));
  const int own = worker_.rank();
  RequestParams params;
  params.field_mask =
      RequestParams::kCallback | RequestParams::kUserData | RequestParams::kFlags | RequestParams::kMemoryType;
  params.flags = RequestParams::kEagerCopied;
  params.user_data = sending.get();
  params.callback.sent = [](void* request, Status, void* user_data) {
    const std::unique_ptr<NoteUnderWay> sent(static_cast<NoteUnderWay*>(user_data));
    --*sent->under_way;
    Ucp::loaded().ucp_request_free(request);
  };
  const Request request = worker_.ucp().ucp_am_send_nbx(endpoint, kNotes, &own, sizeof own, sending->note.data(),
                                                        sending->note.size(), &params);
  if (status_of(request) != kInProgress) return;
  ++under_way_;
  static_cast<void>(sending.release());  // the callback's
}

bool UcxNoteCarrier::sending() {
  worker_.progress();
  return !sent();
}

void UcxNoteCarrier::take_arrived(const Take& take) {
  worker_.progress();
  while (!arrived_.empty()) {
    const auto [rank, note] = std::move(arrived_.front());
    arrived_.pop_front();
    take(rank, std::as_bytes(std::span(note)));
  }
}

}  // namespace lanecast::ucx
