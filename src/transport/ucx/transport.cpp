// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace lanecast {
namespace {

using ucx::RequestParams;

constexpr int kRoundsAtOnce = 64;  // of UCX's progress, before the executor is told what has finished
constexpr auto kToTellPeers = std::chrono::milliseconds(200);
constexpr auto kToLetGo = std::chrono::milliseconds(2000);

// UCX's vectors are our spans.
static_assert(sizeof(Span) == sizeof(void*) + sizeof(std::size_t) && offsetof(Span, bytes) == sizeof(void*));

RequestParams params_for(const Message& message, void* transfer) {
  RequestParams params;
  params.field_mask = RequestParams::kCallback | RequestParams::kUserData | RequestParams::kDatatype;
  params.datatype = message.memory.size() > 1 ? RequestParams::kVectors : RequestParams::kBytes;
  params.user_data = transfer;
  return params;
}

/// What UCX takes as buffer and count.
std::pair<void*, std::size_t> memory_of(const Message& message) {
  if (message.memory.size() > 1) return {const_cast<Span*>(message.memory.data()), message.memory.size()};
  return {message.memory.empty() ? nullptr : message.memory[0].data, message.bytes};
}

}  // namespace

UcxTransport::UcxTransport(const Bootstrap& bootstrap)
    : worker_(bootstrap), note_carrier_(worker_), notes_(note_carrier_) {}

UcxTransport::~UcxTransport() {
  if (!left_ && free_.size() != transfers_.size())
    abort({FailureKind::user, "the communicator was destroyed during a call"});
  if (left_ && note_carrier_.sent()) worker_.disconnect();  // nothing else is worth waiting for
  worker_.close();  // a peer's note may still come, and what it is kept in goes before the worker
}

UcxTransport::Transfer& UcxTransport::begin(Message& message, bool receive) {
  if (free_.empty()) free_.push_back(&transfers_.emplace_back());
  Transfer& transfer = *free_.back();
  free_.pop_back();
  transfer = {this, &message, nullptr, ucx::kInProgress, 0, receive};
  return transfer;
}

void UcxTransport::ended(Transfer& transfer, ucx::Status status) {
  transfer.request = nullptr;
  transfer.status = status;
  ended_.push_back(&transfer);
}

void UcxTransport::started(Transfer& transfer, ucx::Request request) {
  const ucx::Status status = ucx::status_of(request);
  if (status != ucx::kInProgress) return ended(transfer, status);
  transfer.request = request;
}

void UcxTransport::post_send(Message& message) {
  Transfer& transfer = begin(message, /*receive=*/false);
  const ucx::Endpoint endpoint = worker_.to(message.peer);
  if (!endpoint) return;  // lost() says why
  RequestParams params = params_for(message, &transfer);
  params.callback.sent = [](void* request, ucx::Status status, void* user_data) {
    auto& sent = *static_cast<Transfer*>(user_data);
    sent.transport->ended(sent, status);
    sent.transport->worker_.ucp().ucp_request_free(request);
  };
  const auto [buffer, count] = memory_of(message);
  started(transfer,
          worker_.ucp().ucp_tag_send_nbx(endpoint, buffer, count, tag_of(worker_.rank(), message.tag), &params));
}

void UcxTransport::post_recv(Message& message) {
  Transfer& transfer = begin(message, /*receive=*/true);
  worker_.to(message.peer);  // or its end would not be noticed
  RequestParams params = params_for(message, &transfer);
  params.callback.received = [](void* request, ucx::Status status, const ucx::TagInfo* info, void* user_data) {
    auto& received = *static_cast<Transfer*>(user_data);
    received.bytes = info->length;
    received.transport->ended(received, status);
    received.transport->worker_.ucp().ucp_request_free(request);
  };
  ucx::TagInfo at_once;
  params.field_mask |= RequestParams::kReceiveInfo;
  params.receive_info = &at_once;
  const auto [buffer, count] = memory_of(message);
  const ucx::Request request = worker_.ucp().ucp_tag_recv_nbx(worker_.handle(), buffer, count,
                                                              tag_of(message.peer, message.tag), UINT64_MAX, &params);
  transfer.bytes = at_once.length;
  started(transfer, request);
}

bool UcxTransport::judge(const Transfer& transfer) const {
  const Message& message = *transfer.message;
  const bool fits = !transfer.receive || transfer.bytes == message.bytes;
  if (transfer.status == 0 && fits) return true;
  const std::string who = "rank " + std::to_string(worker_.rank()) +
                          (transfer.receive ? ": receiving from rank " : ": sending to rank ") +
                          std::to_string(message.peer) + ", " + describe_tag(message.tag, kMostTags) + ": ";
  if (transfer.status == ucx::kTruncated || transfer.status == 0)
    throw MismatchError(who + "expected " + std::to_string(message.bytes) + " bytes, " +
                        std::to_string(transfer.bytes) +
                        " arrived. The ranks disagree about this call: compare their counts and dtypes");
  if (worker_.failure(message.peer).empty()) throw TransportError(who + worker_.ucp().words(transfer.status));
  return false;
}

bool UcxTransport::progress(std::vector<Message*>& done) {
  // What UCX itself calls progress may be a peer's question, and a rank that is only asked must not wait for ever.
  for (int round = 0; round < kRoundsAtOnce && worker_.progress();) ++round;
  taken_.swap(ended_);
  ended_.clear();
  for (Transfer* transfer : taken_) {
    if (!judge(*transfer)) continue;
    done.push_back(transfer->message);
    free_.push_back(transfer);
  }
  return !taken_.empty();
}

bool UcxTransport::arrived(int peer, std::uint64_t tag) {
  worker_.to(peer);
  worker_.progress();
  ucx::TagInfo info;
  return worker_.ucp().ucp_tag_probe_nb(worker_.handle(), tag_of(peer, tag), UINT64_MAX, 0, &info) != nullptr;
}

void UcxTransport::abort(const Failure& cause) {
  left_ = true;
  notes_.give_up(cause);
  for (Transfer& transfer : transfers_)
    if (transfer.receive && transfer.request) worker_.ucp().ucp_request_cancel(worker_.handle(), transfer.request);
  worker_.progress_until([&] { return has_let_go() && note_carrier_.sent(); }, kToTellPeers);
  if (has_let_go()) return;  // a peer that is busy is told by and by
  const bool sent = note_carrier_.sent();
  worker_.disconnect();  // ends what is being sent, notes as well
  worker_.progress_until([&] { return has_let_go(); }, kToLetGo);
  if (!sent) notes_.give_up(cause);  // by new connections
}

bool UcxTransport::has_let_go() const { return std::ranges::none_of(transfers_, &Transfer::request); }

Loss UcxTransport::lost(int peer) {
  if (Failure cause = notes_.given_up(peer)) return {"its process has given up", std::move(cause)};
  return {worker_.failure(peer), {}};
}

}  // namespace lanecast
