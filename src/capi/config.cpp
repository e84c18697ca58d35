// SPDX-License-Identifier: Apache-2.0
#include "capi/config.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace lanecast::capi {
namespace {

/// A program built against a later header may run with this library as long as it does not use what is new there.
bool is_understood(const lanecastConfig_t& config) {
  if (config.size < sizeof config) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&config);
  return std::all_of(bytes + sizeof config, bytes + config.size, [](unsigned char byte) { return byte == 0; });
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

}  // namespace

CommunicatorOptions options_from(const lanecastConfig_t* config) {
  CommunicatorOptions options;
  if (!config) return options;
  if (!is_understood(*config))
    throw UsageError("config: its size is " + std::to_string(config->size) + ", this library's " +
                     std::to_string(sizeof *config) +
                     "; start from LANECAST_CONFIG_INITIALIZER and set only what the library's version knows");
  options.topology = text_or_empty(config->topology);
  options.transports = text_or_empty(config->transports);
  options.algorithm = text_or_empty(config->algorithm);
  options.chunks = config->chunks;
  if (config->timeout_s != 0) options.timeout_s = config->timeout_s;
  return options;
}

lanecastError_t* error_of(const lanecastConfig_t* config) {
  return config && config->size >= sizeof *config ? config->error : nullptr;
}

}  // namespace lanecast::capi
