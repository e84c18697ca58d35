// SPDX-License-Identifier: Apache-2.0
#include "capi/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace lanecast::capi {
namespace {

/// The struct of the first version of the header, which ended with `error`.
constexpr std::size_t kFirstSize = offsetof(lanecastConfig_t, reproducible);

/// A program built against a later header may run with this library as long as it does not use what is new there.
bool is_understood(const lanecastConfig_t& config) {
  if (config.size < kFirstSize) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&config);
  return config.size <= sizeof config ||
         std::all_of(bytes + sizeof config, bytes + config.size, [](unsigned char byte) { return byte == 0; });
}

/// One built against an earlier header has the defaults of what came later.
lanecastConfig_t completed(const lanecastConfig_t& config) {
  if (!is_understood(config))
    throw UsageError("config: its size is " + std::to_string(config.size) + ", this library's " +
                     std::to_string(sizeof config) +
                     "; start from LANECAST_CONFIG_INITIALIZER and set only what the library's version knows");
  lanecastConfig_t whole = LANECAST_CONFIG_INITIALIZER;
  std::memcpy(&whole, &config, std::min(config.size, sizeof whole));
  return whole;
}

bool switched(const char* name, int value) {
  if (value != 0 && value != 1)
    throw UsageError(std::string(name) + ": " + std::to_string(value) + " is neither 0 nor 1");
  return value == 1;
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

std::vector<std::string> folders_in(const char* text) {
  std::vector<std::string> folders;
  std::istringstream all(text_or_empty(text));
  for (std::string folder; std::getline(all, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

}  // namespace

CommunicatorOptions options_from(const lanecastConfig_t* config) {
  CommunicatorOptions options;
  if (!config) return options;
  const lanecastConfig_t given = completed(*config);
  options.topology = text_or_empty(given.topology);
  options.transports = text_or_empty(given.transports);
  options.algorithm = text_or_empty(given.algorithm);
  options.chunks = given.chunks;
  if (given.timeout_s != 0) options.timeout_s = given.timeout_s;
  if (switched("reproducible", given.reproducible)) options.reproducible = true;
  options.check_calls = switched("check_calls", given.check_calls);
  options.trace_dir = text_or_empty(given.trace_dir);
  options.trace_steps = switched("trace_steps", given.trace_steps);
  options.allow_shared_gpu = switched("allow_shared_gpu", given.allow_shared_gpu);
  options.max_ctas = given.max_ctas;
  options.gpu_messages = text_or_empty(given.gpu_messages);
  options.kernel_cache = text_or_empty(given.kernel_cache);
  options.gpu_library_folders = folders_in(given.gpu_libraries);
  return options;
}

std::string profile_of(const lanecastConfig_t* config) {
  return config ? text_or_empty(completed(*config).profile) : std::string();
}

bool over_mpi(const lanecastConfig_t* config) { return config && switched("mpi", completed(*config).mpi); }

lanecastError_t* error_of(const lanecastConfig_t* config) {
  return config && config->size >= kFirstSize ? config->error : nullptr;
}

}  // namespace lanecast::capi
