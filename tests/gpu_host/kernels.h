// SPDX-License-Identifier: Apache-2.0
// The library's kernels, compiled for the CPU, by their names.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace gpu_host {

/// A kernel's body, made from its name and its one argument, which is copied as a launch copies it; empty for a name
/// that is no kernel's.
std::function<void()> kernel(const std::string& name, const void* argument);

}  // namespace gpu_host
