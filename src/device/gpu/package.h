// SPDX-License-Identifier: Apache-2.0
// Code of the kernels that was made with this library, before it was installed: a folder for each target, and in it a
// file for each module.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/modules.h"

namespace lanecast::gpu {

class KernelPackage {
 public:
  /// folder: may be missing, as of a build without a compiler of kernels.
  explicit KernelPackage(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// What lies in `lanecast-kernels` beside this library, or in the folder that LANECAST_KERNEL_FOLDER names.
  static KernelPackage own();

  const std::filesystem::path& folder() const { return folder_; }

  /// Machine code by rising architecture, then PTX: "sm_80", ..., "sm_120", "compute_100".
  std::vector<std::string> targets() const;

  /// Those that may serve a device of this architecture, the best first: its own machine code, that of earlier
  /// architectures of its generation, and PTX, which the driver compiles.
  std::vector<std::string> targets_for(const std::string& architecture) const;

  /// Throws UsageError that says why the code is of no use: it is missing, spoilt, or of another source.
  std::string read(const KernelModule& module, const std::string& target) const;

  /// Throws UsageError where the file cannot be written.
  void write(const KernelModule& module, const std::string& target, std::string_view code) const;

 private:
  std::filesystem::path file(const KernelModule& module, const std::string& target) const {
    return folder_ / target / module.name;
  }

  std::filesystem::path folder_;
};

}  // namespace lanecast::gpu
