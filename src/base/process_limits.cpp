// SPDX-License-Identifier: Apache-2.0
#include "base/process_limits.h"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>
#include <system_error>

namespace lanecast {
namespace {

// A library opens some dozens when it starts, and closes what it had when it fails.
constexpr rlim_t kFewFiles = 64;
// What UCX reserves of shared memory for itself.
constexpr rlim_t kSmallFile = rlim_t{16} << 20;

rlim_t limit_of(__rlimit_resource_t resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

std::string limits_about_reached() {
  std::string text;
  std::error_code none;
  const std::filesystem::directory_iterator open("/proc/self/fd", none);
  const auto files = static_cast<rlim_t>(std::distance(open, std::filesystem::directory_iterator{}));
  if (const rlim_t most = limit_of(RLIMIT_NOFILE); files + kFewFiles > most)
    text += "; this process has " + std::to_string(files) + " files open and may have " + std::to_string(most) +
            ": free communicators or raise the limit (ulimit -n)";
  if (const rlim_t bytes = limit_of(RLIMIT_FSIZE); bytes < kSmallFile)
    text += "; files may have " + std::to_string(bytes) + " bytes: raise the limit (ulimit -f)";
  return text;
}

}  // namespace lanecast
