// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/copied_memory.h"

#include <algorithm>
#include <cstring>

#include "device/gpu/beside_captures.h"
#include "device/gpu/stream.h"

namespace lanecast::gpu {

CopiedMemory::CopiedMemory(const std::shared_ptr<Device>& device, std::span<const std::byte> bytes)
    : source_(device, std::max<std::size_t>(bytes.size(), 1)), memory_(device, std::max<std::size_t>(bytes.size(), 1)) {
  const OwnedStream stream(device);
  const BesideCaptures beside(device->driver());  // another thread's, which a wait for a stream would spoil
  std::memcpy(source_.host(), bytes.data(), bytes.size());
  device->check(device->driver().copy(memory_.address(), source_.device(), bytes.size(), stream.get()),
                "cuMemcpyAsync");
  device->check(device->driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

}  // namespace lanecast::gpu
