// SPDX-License-Identifier: Apache-2.0
// What a user may set for a communicator, in code or by LANECAST_… in the environment.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/request/executor_options.h"
#include "topology/topology.h"

namespace lanecast {

inline constexpr double kTimeout_s = 300;

/// Looks whether the user wants to stop (Ctrl-C); throws to end the wait.
using Interrupt = std::function<void()>;

/// Which ranks of a larger job a communicator has. Variables of the environment describe the job.
struct PartOfJob {
  int size = 0;              // of the job
  std::vector<int> ranks;    // there, of each rank of the communicator
  bool has_options = false;  // it is also what topology, transports and algorithm describe that the program gives
};

/// Where messages between hosts lie while they are moved: in the host's memory, or the long ones on the GPU.
inline constexpr std::string_view kStagedMessages = "staged", kDirectMessages = "direct";

struct CommunicatorOptions {
  std::string topology;            // "2x4", …; empty: from the hosts that the ranks run on
  std::optional<Topology> placed;  // levels of any shape, instead of the text
  std::string transports;  // "shm", or per level, outermost first: "mpi,shm"; empty: the best that reaches each peer
  std::string algorithm;   // for every call; empty: chosen per call
  int chunks = 0;          // 0: chosen per call
  std::optional<bool> reproducible;  // sums in rank order, the same bits whatever else is chosen; none: no
  std::optional<double> timeout_s;   // without progress; a communicator's own options always say
  bool check_calls = true;           // do all ranks make the same calls?
  std::string trace_dir;             // where a rank writes its calls when it fails or ends; empty: nowhere
  bool trace_steps = false;          // and what it does for each step
  std::optional<int> ucx_lanes;      // threads that move long messages over UCX; none: as many as pay
  std::string gpu_nics;              // folder of the network of emulated NICs that this rank is in; empty: none
  int device = -1;                   // ordinal of this rank's GPU, opened at once; -1: that of the first call on one
  bool allow_shared_gpu = false;     // ranks that share a GPU, to try things out
  int max_ctas = 0;                  // multiprocessors of a GPU that a call takes; 0: as many as serve speed
  // "staged" or "direct"; empty: the latter where the transport can without a call of the GPU's driver and nothing
  // speaks against it.
  std::string gpu_messages;
  std::string links;                             // see link_policy.h; empty: those between hosts are timed
  std::vector<std::string> gpu_library_folders;  // where the GPU's libraries may lie beside the loader's path
  std::string kernel_cache;                      // folder of compiled kernels; empty: compiled for each process
  bool from_environment = true;                  // may LANECAST_… fill what is left at its default?
  std::set<std::string_view> set_by;             // those variables that have
  std::optional<PartOfJob> part;                 // none: the whole job
  std::vector<std::string> left_aside;           // what variables say of the job and does not fit the part, for people
  Interrupt interrupt;                           // asked in waits of calls that take none of their own
  ExecutorOptions executor;
};

/// Every environment variable that the core reads.
std::span<const std::string_view> known_variables();

/// Fills what the code has left at its default from LANECAST_TOPOLOGY, LANECAST_TRANSPORTS, LANECAST_ALGORITHM,
/// LANECAST_CHUNKS, LANECAST_REPRODUCIBLE, LANECAST_TIMEOUT, LANECAST_CHECK_CALLS, LANECAST_TRACE_DIR,
/// LANECAST_TRACE_STEPS, LANECAST_UCX_LANES, LANECAST_MAX_CTAS, LANECAST_GPU_MESSAGES, LANECAST_LINKS,
/// LANECAST_GPU_NICS and LANECAST_ALLOW_SHARED_GPU. Throws UsageError for values that are no such thing, and for any
/// other variable that starts with LANECAST_: a misspelt option must not pass in silence.
void apply_environment(CommunicatorOptions& options);

/// Throws UsageError for numbers out of range.
void check(const CommunicatorOptions& options);

/// What `judge` returns. Where the variable has set what it judges, its UsageError names the variable: the program says
/// nothing of that option.
template <class Judge>
auto naming(std::string_view variable, const CommunicatorOptions& options, const Judge& judge) {
  try {
    return judge();
  } catch (const UsageError& error) {
    if (!options.set_by.contains(variable)) throw;
    throw UsageError(std::string(variable) + ": " + error.what());
  }
}

}  // namespace lanecast
