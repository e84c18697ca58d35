// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

#include "runtime/request/call.h"
#include "runtime/wires/link_policy.h"

namespace lanecast {
namespace {

constexpr int kMostLanes = 64;
/// Where chunks take turns, an empty one lets the next one in before it returns: so deep may the stack become.
constexpr int kMostChunksInFlight = 1024;

constexpr std::array<std::string_view, 30> kKnown{"LANECAST_TOPOLOGY",
                                                  "LANECAST_TRANSPORTS",
                                                  "LANECAST_ALGORITHM",
                                                  "LANECAST_CHUNKS",
                                                  "LANECAST_REPRODUCIBLE",
                                                  "LANECAST_TIMEOUT",
                                                  "LANECAST_CHECK_CALLS",
                                                  "LANECAST_HOST",
                                                  "LANECAST_PROFILE",
                                                  "LANECAST_LINKS",
                                                  "LANECAST_NICS",
                                                  "LANECAST_GPU_NICS",
                                                  "LANECAST_MPI_LIBRARY",
                                                  "LANECAST_TRACE_DIR",
                                                  "LANECAST_TRACE_STEPS",
                                                  "LANECAST_UCX_LANES",
                                                  "LANECAST_MAX_CTAS",
                                                  "LANECAST_GPU_MESSAGES",
                                                  "LANECAST_ALLOW_SHARED_GPU",
                                                  "LANECAST_PROCESSES_PER_GPU",
                                                  "LANECAST_ALLOW_SHARED_CORES",
                                                  "LANECAST_CUDA_LIBRARY",
                                                  "LANECAST_NVRTC_LIBRARY",
                                                  "LANECAST_KERNEL_FOLDER",
                                                  "LANECAST_HIP_LIBRARY",
                                                  "LANECAST_HIPRTC_LIBRARY",
                                                  "LANECAST_NCCL_LIBRARY",
                                                  "LANECAST_UCX_LIBRARY",
                                                  "LANECAST_TORCH",
                                                  "LANECAST_NCCL"};

void check_gpu_messages(std::string_view wanted) {
  if (!wanted.empty() && wanted != kStagedMessages && wanted != kDirectMessages)
    throw UsageError("gpu_messages: '" + std::string(wanted) + "' is neither staged nor direct");
}

std::string_view value_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void read_text(CommunicatorOptions& options, const char* name, std::string& into) {
  if (!into.empty()) return;
  into = value_of(name);
  if (!into.empty()) options.set_by.insert(name);
}

template <class Number>
void read_number(const char* name, Number& into, Number smallest, Number largest) {
  const std::string_view text = value_of(name);
  if (text.empty()) return;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Not `value < smallest`, which a NaN would pass.
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= smallest && value <= largest)) {
    std::ostringstream expected;
    expected << "a number of at least " << smallest;
    if (largest < std::numeric_limits<Number>::max()) expected << " and at most " << largest;
    throw UsageError(std::string(name) + "='" + std::string(text) + "': expected " + expected.str());
  }
  into = value;
}

std::optional<bool> read_switch(const char* name) {
  const std::string_view text = value_of(name);
  if (text.empty()) return {};
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw UsageError(std::string(name) + "='" + std::string(text) + "': expected 1 or 0");
}

}  // namespace

std::span<const std::string_view> known_variables() { return kKnown; }

void apply_environment(CommunicatorOptions& options) {
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("LANECAST_") || std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) continue;
    std::string known;
    for (std::string_view k : kKnown) known += " " + std::string(k);
    throw UsageError("environment variable " + std::string(name) + " is unknown; known:" + known);
  }
  if (!options.placed) read_text(options, "LANECAST_TOPOLOGY", options.topology);
  read_text(options, "LANECAST_TRANSPORTS", options.transports);
  read_text(options, "LANECAST_ALGORITHM", options.algorithm);
  if (options.chunks == 0) read_number("LANECAST_CHUNKS", options.chunks, 1, kMostChunks);
  if (!options.timeout_s)
    read_number("LANECAST_TIMEOUT", options.timeout_s.emplace(kTimeout_s), 0.001,
                std::numeric_limits<double>::infinity());
  if (!options.reproducible) options.reproducible = read_switch("LANECAST_REPRODUCIBLE");
  if (options.check_calls) options.check_calls = read_switch("LANECAST_CHECK_CALLS").value_or(true);
  read_text(options, "LANECAST_TRACE_DIR", options.trace_dir);
  if (!options.trace_steps) options.trace_steps = read_switch("LANECAST_TRACE_STEPS").value_or(false);
  if (int lanes = -1; !options.ucx_lanes) {
    read_number("LANECAST_UCX_LANES", lanes, 0, kMostLanes);
    if (lanes >= 0) options.ucx_lanes = lanes;
  }
  if (options.max_ctas == 0) read_number("LANECAST_MAX_CTAS", options.max_ctas, 1, std::numeric_limits<int>::max());
  read_text(options, "LANECAST_GPU_MESSAGES", options.gpu_messages);
  read_text(options, "LANECAST_LINKS", options.links);
  read_text(options, "LANECAST_GPU_NICS", options.gpu_nics);
  if (!options.allow_shared_gpu) options.allow_shared_gpu = read_switch("LANECAST_ALLOW_SHARED_GPU").value_or(false);
}

void check(const CommunicatorOptions& options) {
  if (options.chunks < 0 || options.chunks > kMostChunks)
    throw UsageError("chunks: " + std::to_string(options.chunks) + " is not from 0 to " + std::to_string(kMostChunks));
  // A ring receives before it sends, so it needs two; no plan needs more.
  if (options.executor.window < 2 || options.executor.window > INT32_MAX) throw UsageError("window: must be 2 or more");
  if (const int chunks = options.executor.chunks_in_flight; chunks < 1 || chunks > kMostChunksInFlight)
    throw UsageError("chunks_in_flight: " + std::to_string(chunks) + " is not from 1 to " +
                     std::to_string(kMostChunksInFlight));
  if (options.device < -1) throw UsageError("device: " + std::to_string(options.device) + " is no GPU's number");
  if (options.max_ctas < 0) throw UsageError("max_ctas: " + std::to_string(options.max_ctas) + " is negative");
  naming("LANECAST_GPU_MESSAGES", options, [&] { check_gpu_messages(options.gpu_messages); });
  naming("LANECAST_LINKS", options, [&] { link_policy_from(options.links); });
  if (options.timeout_s && !(*options.timeout_s > 0)) throw UsageError("timeout_s: must be more than 0");
}

}  // namespace lanecast
