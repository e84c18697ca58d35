// SPDX-License-Identifier: Apache-2.0
// What can be asked of a communicator, and where it is to run.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "runtime/request/call.h"
#include "runtime/request/composed_call.h"
#include "runtime/request/transfer.h"

namespace lanecast {

struct BoundCall;

/// The caller's own, until the verb returns: a small call takes notice of each copy.
template <class Request>
class Lent {
 public:
  Lent(const Request& request) : request_(&request) {}   // NOLINT(google-explicit-constructor): as it is called
  operator const Request&() const { return *request_; }  // NOLINT(google-explicit-constructor)

 private:
  const Request* request_;
};

/// Done when every rank has come. A collective like others, also in its order among them.
struct BarrierRequest {};

/// Sends and receives posted together, in which only this rank and its peers take part: none waits for another, or for
/// the collectives started before.
using Transfers = std::span<const Transfer>;

/// Of the host's memory. What Communicator::bind() has made is asked for again and again.
using HostRequest = std::variant<Lent<Call>, Lent<std::shared_ptr<BoundCall>>, Transfers, BarrierRequest>;

/// Of a GPU's memory. Transfers match in the order of the calls there, and this rank may be a peer of its own.
using GpuRequest = std::variant<Lent<Call>, Lent<ComposedOnGpu>, Transfers>;

/// Where the buffers of a GpuRequest lie, and what it comes behind: what that stream (a CUstream) of the caller's holds
/// now.
struct OnStream {
  void* stream = nullptr;
  int device = 0;      // ordinal, the same for all calls; kUnknownDevice: that of the buffers
  bool apart = false;  // on a stream of the communicator's own, so that the caller's goes on
};

/// A blocking call during which other threads may call as well: their calls come in between, and neither ends by
/// waiting for the other's ranks.
struct BesideOthers {
  std::optional<double> timeout_s;  // of this call; unset: the communicator's
};

}  // namespace lanecast
