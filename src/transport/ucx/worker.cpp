// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/worker.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/process_limits.h"
#include "base/quiet_thread.h"
#include "transport/ucx/nics.h"

namespace lanecast::ucx {
namespace {

constexpr auto kToClose = std::chrono::milliseconds(800);  // a second in all with the time for a farewell

/// What was set here of the variables that say which NICs and transports UCX may use.
std::string told() {
  std::string text;
  for (const char* variable : {"UCX_NET_DEVICES", "UCX_TLS", "LANECAST_NICS"})
    if (const char* value = std::getenv(variable))
      text += std::string(text.empty() ? " was told " : ", ") + variable + "=" + value;
  return "UCX" + (text.empty() ? " was told nothing" : text) + ", and this host has " + nics_here() +
         ": name NICs by which all hosts reach each other in LANECAST_NICS or UCX_NET_DEVICES, and a network's "
         "transports in UCX_TLS, on all ranks (ucx_info -d lists both)";
}

RequestParams at_once() {
  RequestParams params;
  params.field_mask = RequestParams::kFlags;
  params.flags = RequestParams::kForceClose;
  return params;
}

}  // namespace

Worker::Worker(int rank, int size, std::string device) : device_(std::move(device)), rank_(rank), peers_(size) {}

// Delegates, so that what throws below, where another rank has no UCX, closes what was opened here.
Worker::Worker(const Bootstrap& bootstrap, const WorkerOptions& options)
    : Worker(bootstrap.rank, bootstrap.size, options.device) {
  // "+" and the address, or "-" and why there is none.
  std::string mine;
  try {
    std::string address;
    open(address, options);
    farewells_ = std::make_unique<Farewells>(*this);
    mine = "+" + address;
  } catch (const Error& error) {
    mine = std::string("-") + error.what();
  }
  std::vector<std::string> all = bootstrap.all_gather_strings(mine);
  for (int r = 0; r < size(); ++r) {
    if (all[r][0] == '-') throw UsageError("rank " + std::to_string(r) + ": " + all[r].substr(1));
    peers_[r].address = all[r].substr(1);
  }
}

void Worker::open(std::string& address, const WorkerOptions& options) {
  try {
    open_ucx(address, options);
  } catch (const TransportError& error) {  // "Input/output error" where no file could be opened
    throw TransportError(error.what() + limits_about_reached());
  }
}

void Worker::open_ucx(std::string& address, const WorkerOptions& options) {
  ucp_ = &Ucp::loaded();
  const QuietThreads quiet;  // UCX starts one
  const Settings settings(*ucp_, options.device, options.drivers);
  ContextParams context;
  context.field_mask = ContextParams::kFeatures | ContextParams::kEstimatedEndpoints;
  context.features = ContextParams::kTagFeature | ContextParams::kActiveMessageFeature;
  if (options.sleeps) context.features |= ContextParams::kWakeUpFeature;
  context.estimated_num_eps = peers_.size();
  const Status opened = ucp_->ucp_init_version(kOldestMajor, kOldestMinor, &context, settings.get(), &context_);
  if (opened == kNoDevice) throw TransportError("UCX has no NIC or transport that it may use: " + told());
  ucp_->check(opened, "ucp_init");

  WorkerParams worker;
  worker.field_mask = WorkerParams::kThreadMode | WorkerParams::kFlags;
  worker.thread_mode = WorkerParams::kSerialized;  // the caller's thread and the one that progresses take turns
  worker.flags = WorkerParams::kIgnoreRequestLeak;
  ucp_->check(ucp_->ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
  if (options.sleeps) ucp_->check(ucp_->ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");

  WorkerAttributes attributes;
  attributes.field_mask = WorkerAttributes::kAddress;
  ucp_->check(ucp_->ucp_worker_query(worker_, &attributes), "ucp_worker_query");
  address.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucp_->ucp_worker_release_address(worker_, attributes.address);
}

void Worker::close() {
  close_endpoints({});
  if (worker_) ucp_->ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_) ucp_->ucp_cleanup(std::exchange(context_, nullptr));
}

bool Worker::takes(int memory_type) const {
  ContextAttributes attributes;
  attributes.field_mask = ContextAttributes::kMemoryTypes;
  ucp_->check(ucp_->ucp_context_query(context_, &attributes), "ucp_context_query");
  return (attributes.memory_types >> memory_type & 1) != 0;
}

Endpoint Worker::to(int peer) {
  Peer& to = peers_.at(peer);
  if (to.status != 0) return nullptr;
  if (to.endpoint) return to.endpoint;
  EndpointParams params;
  params.field_mask = EndpointParams::kRemoteAddress | EndpointParams::kErrorMode | EndpointParams::kErrorHandler;
  params.address = reinterpret_cast<const Address*>(to.address.data());
  params.error_mode = EndpointParams::kPeerFailures;
  params.error_handler.argument = &to;
  params.error_handler.handle = [](void* argument, Endpoint, Status status) {
    static_cast<Peer*>(argument)->status = status;
  };
  to.status = ucp_->ucp_ep_create(worker_, &params, &to.endpoint);
  return to.endpoint;
}

std::string Worker::failure(int peer) const {
  const Status status = peers_.at(peer).status;
  if (status == 0) return {};
  const std::string over = device_.empty() ? "" : " over " + device_;
  return "its UCX connection" + over + " has failed: " + ucp_->words(status) +
         (status == kUnreachable ? "; " + told() : "");
}

void Worker::close_endpoints(const RequestParams& how) {
  std::vector<Request> closing;
  for (Peer& peer : peers_) close(peer, how, closing);
  if (worker_) await_closed(std::move(closing));
}

void Worker::close(Peer& peer, const RequestParams& how, std::vector<Request>& closing) {
  const Endpoint endpoint = std::exchange(peer.endpoint, nullptr);
  if (!endpoint) return;
  const Request request = ucp_->ucp_ep_close_nbx(endpoint, &how);
  if (status_of(request) == kInProgress) closing.push_back(request);
}

void Worker::connect(std::span<const int> peers, std::chrono::milliseconds most) {
  std::vector<Request> connecting;
  std::vector<int> waits_for;
  const RequestParams plain{};
  for (const int peer : peers)
    if (const Endpoint endpoint = to(peer)) {
      const Request request = ucp_->ucp_ep_flush_nbx(endpoint, &plain);
      if (status_of(request) != kInProgress) continue;
      connecting.push_back(request);
      waits_for.push_back(peer);
    }
  const std::vector<Request> late = await(connecting, most);
  // A flush that nobody waits for would keep the worker from sleeping.
  std::vector<Request> closing;
  for (std::size_t k = 0; k < connecting.size(); ++k)
    if (std::ranges::count(late, connecting[k]) > 0) {
      peers_[waits_for[k]].status = kNotConnected;
      close(peers_[waits_for[k]], at_once(), closing);
    }
  closing.insert(closing.end(), late.begin(), late.end());
  await_closed(std::move(closing));
}

std::vector<Request> Worker::await(std::vector<Request> requests, std::chrono::milliseconds most) {
  const auto ended = [&] {
    std::erase_if(requests, [&](Request request) {
      if (ucp_->ucp_request_check_status(request) == kInProgress) return false;
      ucp_->ucp_request_free(request);
      return true;
    });
    return requests.empty();
  };
  progress_until(ended, most);
  return requests;
}

void Worker::await_closed(std::vector<Request> closing) {
  for (const Request late : await(std::move(closing), kToClose)) ucp_->ucp_request_free(late);
}

void Worker::disconnect() { close_endpoints(at_once()); }

}  // namespace lanecast::ucx
