// SPDX-License-Identifier: Apache-2.0
// The library's kernels on one device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "device/gpu/code.h"
#include "device/gpu/device.h"
#include "device/gpu/owned.h"

namespace lanecast::gpu {

/// All of them are on the device when the constructor returns: one that loads later, at its first launch, would wait
/// for kernels that run, and they may be waiting for it.
class Kernels {
 public:
  /// Of code that came with this library, where the driver takes it, else of machine_code(). What came with it and
  /// cannot be used is named on standard error.
  ///
  /// The same for all who ask, for as long as the process lives: each time that a driver loads and unloads them some of
  /// the device's memory stays taken, 0.7 MiB on an H100.
  static std::shared_ptr<const Kernels> on(const std::shared_ptr<Device>& device, const KernelModule& module,
                                           const CodePlaces& places);

  /// code: machine code or PTX.
  Kernels(std::shared_ptr<Device> device, const std::string& code);

  /// Throws InternalError for a kernel that is not in the source.
  Function get(std::string_view name) const;
  bool has(std::string_view name) const { return functions_.contains(name); }
  /// Of one that get() has given; looks at all of them.
  std::string_view name_of(Function function) const;

 private:
  Owned<Module> module_;
  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace lanecast::gpu
