// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "transport/ucx/buffers.h"
#include "transport/ucx/nics.h"

namespace lanecast {
namespace {

using ucx::RequestParams;

constexpr int kRoundsAtOnce = 64;   // of UCX's progress, before the executor is told what has finished
constexpr int kMostConnected = 64;  // ranks: connections to all are made beforehand; among more, when they are used
constexpr auto kToTellPeers = std::chrono::milliseconds(200);

}  // namespace

UcxTransport::UcxTransport(const Bootstrap& bootstrap, int lanes, ucx::Drivers drivers)
    : drivers_(drivers),
      worker_(bootstrap, {.device = {}, .drivers = drivers}),
      note_carrier_(worker_),
      notes_(*this),
      failures_(bootstrap.size),
      lanes_(bootstrap, lanes) {}

UcxTransport::~UcxTransport() {
  if (!left_ && free_.size() != transfers_.size())
    abort({FailureKind::user, "the communicator was destroyed during a call"});
  if (!left_) {
    lanes_.leave();
    worker_.leave();
    lanes_.await_over();
  } else if (note_carrier_.sent()) {
    worker_.disconnect();  // nothing else is worth waiting for
  }
  gpu_memory_.clear(worker_);
  worker_.close();  // a peer's note may still come, and what it is kept in goes before the worker
}

std::optional<bool> UcxTransport::takes(GpuVendor vendor) const {
  if (lanes_.count() > 0) return false;
  if (drivers_ == ucx::Drivers::apart) return ucx::reach(vendor) ? std::optional(true) : std::nullopt;
  // UCX says so of all that it can have copied by the driver.
  if (!worker_.takes(ucx::type_of(vendor))) return false;
  return {};
}

std::string UcxTransport::why_undecided(GpuVendor vendor) const {
  if (lanes_.count() > 0 || !ucx::has_any("infiniband") || ucx::reach(vendor)) return {};
  return "the NICs here do not take the GPUs' memory by themselves (is nvidia_peermem loaded?), so UCX would call the "
         "GPU's driver while messages move";
}

UcxTransport::MessageInPieces& UcxTransport::begin(Message& message, bool receive) {
  if (free_.empty()) free_.push_back(&transfers_.emplace_back());
  MessageInPieces& transfer = *free_.back();
  free_.pop_back();
  const bool cut = lanes_.cut(message.bytes);
  transfer.transport = this;
  transfer.message = &message;
  transfer.receive = receive;
  transfer.bytes = cut ? lanes_.head(message.bytes) : message.bytes;
  transfer.head = cut ? ucx::part_of(message.memory, 0, transfer.bytes) : std::vector<Span>();
  transfer.unfinished = cut ? 1 + lanes_.count_for(message.bytes) : 1;
  if (cut)
    lanes_.post(message, tag_of(receive ? message.peer : worker_.rank(), message.tag), receive, &transfer,
                transfer.shares);
  return transfer;
}

std::span<const Span> UcxTransport::own_part(const MessageInPieces& transfer) const {
  return transfer.head.empty() ? transfer.message->memory : std::span<const Span>(transfer.head);
}

void UcxTransport::ended(MessageInPieces& transfer, const PieceOutcome& piece) {
  --transfer.unfinished;
  const bool fits = !transfer.receive || piece.arrived == piece.bytes;
  if (transfer.failed) return;
  transfer.failed = piece.status != 0 || !fits;
  if (transfer.failed) transfer.piece = piece;
  // One that has failed is told at once: its other pieces may never end.
  if (transfer.failed || transfer.unfinished == 0) ended_.push_back(&transfer);
}

void UcxTransport::ended(MessageInPieces& transfer, ucx::Status status, std::size_t arrived) {
  transfer.request = nullptr;
  ended(transfer, {.status = status, .bytes = transfer.bytes, .arrived = arrived, .failure = {}});
}

void UcxTransport::take_shares() {
  lanes_.take_ended(shares_);
  if (shares_.empty()) return;
  // Where a peer gives up, its note is on its way before its lanes end: this looks for it first.
  if (std::ranges::any_of(shares_, [](const ucx::LaneShare* share) { return share->status != 0; })) worker_.progress();
  for (const ucx::LaneShare* share : shares_)
    ended(*static_cast<MessageInPieces*>(share->owner),
          {share->status, share->bytes, share->arrived, /*share=*/true, share->failure});
  shares_.clear();
}

void UcxTransport::started(MessageInPieces& transfer, ucx::Request request) {
  const ucx::Status status = ucx::status_of(request);
  if (status != ucx::kInProgress) return ended(transfer, status, 0);
  transfer.request = request;
}

void UcxTransport::post_send(Message& message) {
  MessageInPieces& transfer = begin(message, /*receive=*/false);
  const ucx::Endpoint endpoint = worker_.to_send_to(message.peer);
  if (!endpoint) return;  // WorkerWitness::lost() says why
  const std::span<const Span> memory = own_part(transfer);
  RequestParams params = ucx::params_for(memory, &transfer);
  gpu_memory_.name(memory, params);
  params.callback.sent = [](void* request, ucx::Status status, void* user_data) {
    auto& sent = *static_cast<MessageInPieces*>(user_data);
    sent.transport->worker_.ucp().ucp_request_free(request);
    sent.transport->ended(sent, status, 0);
  };
  const auto [buffer, count] = ucx::buffer_of(memory, transfer.bytes);
  const ucx::Request request =
      worker_.ucp().ucp_tag_send_nbx(endpoint, buffer, count, tag_of(worker_.rank(), message.tag), &params);
  started(transfer, request);
}

void UcxTransport::post_recv(Message& message) {
  MessageInPieces& transfer = begin(message, /*receive=*/true);
  worker_.to(message.peer);  // or its end would not be noticed
  const std::span<const Span> memory = own_part(transfer);
  RequestParams params = ucx::params_for(memory, &transfer);
  gpu_memory_.name(memory, params);
  params.callback.received = [](void* request, ucx::Status status, const ucx::TagInfo* info, void* user_data) {
    auto& received = *static_cast<MessageInPieces*>(user_data);
    received.transport->worker_.ucp().ucp_request_free(request);
    received.transport->ended(received, status, info->length);
  };
  params.field_mask |= RequestParams::kAlwaysCallsBack;
  transfer.request = &transfer;  // until it calls back, which may be before the call returns
  const auto [buffer, count] = ucx::buffer_of(memory, transfer.bytes);
  const ucx::Request request = worker_.ucp().ucp_tag_recv_nbx(worker_.handle(), buffer, count,
                                                              tag_of(message.peer, message.tag), UINT64_MAX, &params);
  if (transfer.request) started(transfer, request);
}

std::string UcxTransport::describe_arrived(const PieceOutcome& piece) const {
  // What lanes carry of a message does not say whether there are more of its bytes, where more than one may.
  if (piece.share && lanes_.count() > 1) return "fewer or more";
  // Of a long message that does not fit UCX tells no length.
  if (piece.status == ucx::kTruncated && piece.arrived <= piece.bytes) return "more";
  if (piece.share) return std::to_string(ucx::UcxLanes::kHead + piece.arrived);
  const bool may_be_head =
      lanes_.count() > 0 && (piece.arrived == ucx::UcxLanes::kHead || piece.arrived == ucx::UcxLanes::kHeadOfMany);
  return std::to_string(piece.arrived) + (may_be_head ? " or more" : "");
}

bool UcxTransport::judge(const MessageInPieces& transfer) {
  if (!transfer.failed) return true;
  const Message& message = *transfer.message;
  const PieceOutcome& piece = transfer.piece;
  if (piece.status == ucx::kTruncated || piece.status == 0)
    raise_mismatch(message, worker_.rank(), describe_arrived(piece), kMostTags, /*same_stamp=*/true);
  // UCX ends what is under way before it says why.
  const std::string failure = piece.share ? piece.failure : worker_.failure(message.peer);
  if (failure.empty())
    throw TransportError("rank " + std::to_string(worker_.rank()) +
                         (transfer.receive ? ": receiving from rank " : ": sending to rank ") +
                         std::to_string(message.peer) + ", " + describe_tag(message.tag, kMostTags) + ": " +
                         worker_.ucp().words(piece.status));
  failures_[message.peer] = failure;
  return false;
}

bool UcxTransport::progress(std::vector<Message*>& done) {
  // What UCX itself calls progress may be a peer's question, and a rank that is only asked must not wait for ever.
  for (int round = 0; round < kRoundsAtOnce && worker_.progress();) ++round;
  take_shares();
  taken_.swap(ended_);
  ended_.clear();
  for (MessageInPieces* transfer : taken_) {
    if (!judge(*transfer)) continue;
    done.push_back(transfer->message);
    free_.push_back(transfer);
  }
  return !taken_.empty();
}

void UcxTransport::WorkerWitness::carries(std::span<const int> peers) {
  Notes::carries(peers);
  if (owner_.worker_.size() <= kMostConnected) owner_.lanes_.connect(peers);
}

bool UcxTransport::arrived(int peer, std::uint64_t tag) {
  if (is_stuck()) return false;
  worker_.to(peer);
  worker_.progress();
  ucx::TagInfo info;
  return worker_.ucp().ucp_tag_probe_nb(worker_.handle(), tag_of(peer, tag), UINT64_MAX, 0, &info) != nullptr;
}

void UcxTransport::abort(const Failure& cause) {
  left_ = true;
  notes_.give_up(cause);
  lanes_.give_up();
  for (MessageInPieces& transfer : transfers_)
    if (transfer.receive && transfer.request) worker_.ucp().ucp_request_cancel(worker_.handle(), transfer.request);
  const auto let_go = [&] { return has_let_go(); };
  worker_.progress_until([&] { return let_go() && note_carrier_.sent(); }, kToTellPeers);
  lanes_.await_over();
  if (let_go()) return;  // a peer that is busy is told by and by
  const bool sent = note_carrier_.sent();
  worker_.disconnect();  // ends what is being sent, notes as well
  worker_.progress_until(let_go, ucx::kAfterClosing);
  if (!sent && let_go()) notes_.give_up(cause);  // by new connections
}

bool UcxTransport::has_let_go() const { return std::ranges::none_of(transfers_, &MessageInPieces::request); }

Loss UcxTransport::WorkerWitness::lost(int peer) {
  if (!owner_.is_stuck())
    if (Loss said = Notes::lost(peer)) return said;
  std::string failure = owner_.worker_.failure(peer);
  if (failure.empty()) failure = owner_.failures_.at(peer);
  if (failure.empty()) return {};
  owner_.take_shares();
  // To look for notes moves messages as well. What has come before the connection ended is taken first: it may be all
  // that the peer had to send before it left.
  if (std::ranges::any_of(owner_.ended_, [](const MessageInPieces* transfer) { return !transfer->failed; })) return {};
  return {std::move(failure), {}, owner_.worker_.has_left(peer)};
}

}  // namespace lanecast
