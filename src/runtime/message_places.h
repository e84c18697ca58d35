// SPDX-License-Identifier: Apache-2.0
// Where the messages of a call on GPUs lie while they are moved: in pinned memory of the host, or on the GPU itself
// where the transport takes that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/device.h"
#include "runtime/router.h"

namespace lanecast {

/// What a user may want: "staged", through the host; "direct", on the GPU; empty: the latter where the transport's
/// library says that it can and nothing speaks against it. Throws UsageError for anything else.
void check_places(std::string_view wanted);

/// By peer: do messages with it lie on the GPU? hosts: of each rank. Throws UsageError where they are wanted there and
/// no transport to another host could take them.
std::vector<bool> messages_on_device(std::string_view wanted, const gpu::Device& device, Router& router, int rank,
                                     const std::vector<std::string>& hosts);

}  // namespace lanecast
