// SPDX-License-Identifier: Apache-2.0
// From an opened MPI library to the shim that fits its ABI.
#pragma once

#include <memory>
#include <string>

#include "transport/mpi/api.h"

namespace lanecast::mpi {

/// "Open MPI v5.0.11", or empty when `library` (from dlopen) is no MPI. May be asked before MPI is initialised.
std::string version_of(void* library);

/// `library` stays open for good. Throws TransportError for an ABI that has no shim.
std::shared_ptr<MpiApi> make_shim(void* library, MpiLibrary description);

/// The shim over the MPI that this library was compiled against; null without option LANECAST_MPI_HEADER.
std::shared_ptr<MpiApi> make_linked_shim();

}  // namespace lanecast::mpi
