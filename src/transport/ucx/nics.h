// SPDX-License-Identifier: Apache-2.0
// What NICs this host has for UCX, and what they do by themselves.
#pragma once

#include <string>
#include <vector>

#include "transport/transport.h"

namespace lanecast::ucx {

/// Those that UCX has been told to use; empty: it chooses.
std::vector<std::string> devices();

/// Is there a device of that class? "infiniband"; "cxi_user", which is Slingshot.
bool has_any(const char* class_of_devices);

/// For people: all that this process reaches, which may be in a network namespace of its own.
std::string nics_here();

/// Does the kernel carry the messages, and not the NIC by itself?
bool over_tcp(const std::vector<std::string>& devices);

/// Do NICs read and write a GPU's memory by themselves? Then nobody calls the GPU's driver for a message.
bool reach(GpuVendor vendor);

}  // namespace lanecast::ucx
