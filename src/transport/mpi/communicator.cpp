// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/communicator.h"

#include <vector>

#include "base/error.h"

namespace lanecast {

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiApi> api, MpiComm handle)
    : api_(std::move(api)), handle_(handle), rank_(api_->rank(handle)), size_(api_->size(handle)) {}

MpiCommunicator::~MpiCommunicator() {
  if (retired_ || !api_->alive()) return;
  try {
    api_->free(handle_);
  } catch (const TransportError&) {
    // After a failed call MPI may refuse this one too; a destructor can only let the communicator go.
  }
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::duplicate(std::shared_ptr<MpiApi> api, MpiComm parent) {
  const MpiComm handle = api->dup(parent);
  return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(std::move(api), handle));
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::group(std::span<const int> ranks) const {
  const MpiComm handle = api_->create_group(handle_, ranks, message_tags());
  return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(api_, handle));
}

Bootstrap mpi_bootstrap(std::shared_ptr<const MpiCommunicator> comm) {
  Bootstrap bootstrap{.rank = comm->rank(), .size = comm->size(), .all_gather = {}};
  bootstrap.all_gather = [comm = std::move(comm)](const void* in, void* out, std::size_t bytes) {
    const std::vector<std::size_t> counts(comm->size(), bytes);
    comm->api().run({.comm = comm->handle(),
                     .kind = GroupKind::all_gather,
                     .dtype = DType::uint8,
                     .in = in,
                     .out = out,
                     .counts = counts});
  };
  return bootstrap;
}

}  // namespace lanecast
