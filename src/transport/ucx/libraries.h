// SPDX-License-Identifier: Apache-2.0
// The UCX libraries of this machine, and which of them know the memory of GPUs.
#pragma once

#include <string>
#include <vector>

#include "transport/transport.h"

namespace lanecast::ucx {

struct Library {
  std::string path;
  bool cuda = false, rocm = false;  // is there a module for this memory?
};

/// Where wheels put UCX: beside the package that this code lies in (libucx-cu12 and its like), or as a part of MPICH.
std::vector<std::string> wheel_folders();

/// What can be known of them without opening another one, which would disturb the one in use; without a GPU's driver,
/// too, where UCX itself says that it knows no GPU. The first is `in_use`.
std::vector<Library> libraries(const std::string& in_use);

/// What a user may do so that the transport takes a GPU's memory, after "it takes "; has_lanes: those take none.
std::string to_take(GpuVendor vendor, bool has_lanes);

}  // namespace lanecast::ucx
