// SPDX-License-Identifier: Apache-2.0
// A GPU's memory as UCX is told of it once, so that it asks the driver nothing when messages lie there.
#pragma once

#include <vector>

#include "transport/transport.h"
#include "transport/ucx/worker.h"

namespace lanecast::ucx {

/// As UCX counts types of memory.
constexpr int type_of(GpuVendor vendor) {
  return vendor == GpuVendor::nvidia ? ContextAttributes::kCuda : ContextAttributes::kRocm;
}

class GpuMemoryMap {
 public:
  /// Throws TransportError where UCX does not take it, or no NIC. Where drivers may be called it is only remembered
  /// which kind it is.
  void add(const Worker& worker, const GpuSpan& memory, Drivers drivers);
  void remove(const Worker& worker, const GpuSpan& memory);
  /// All that is left; while the worker has its context.
  void clear(const Worker& worker);

  /// Says in params where a message lies, if that is on a GPU.
  void name(std::span<const Span> message, RequestParams& params) const;

 private:
  struct Mapped {
    Span memory;
    int type = 0;
    MemoryHandle handle = nullptr;  // null where it is not mapped
  };
  static void map(const Worker& worker, Mapped& mapped);
  static void unmap(const Worker& worker, const Mapped& mapped);

  std::vector<Mapped> mapped_;
};

}  // namespace lanecast::ucx
