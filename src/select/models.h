// SPDX-License-Identifier: Apache-2.0
// What the cost model knows of a machine: links, and the algorithms that were measured on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/collective.h"
#include "select/gpu_kinds/gpu_kind.h"
#include "select/learned.h"
#include "select/learned_ways.h"
#include "topology/topology.h"

namespace lanecast {

/// Whence a link's values are: an order of magnitude, messages that were timed when the communicator was made, the
/// user, or a file.
enum class LinkSource : std::uint8_t { assumed, timed, given, file };
std::string_view name_of(LinkSource source);

/// What the transport of a link does with its messages: known where that is open, and to no file.
struct LinkTraits {
  bool by_library = false;  // within a host: cores handle its messages one after the other, and store all
  bool by_itself = false;   // its bytes move while the caller's thread adds others
  std::size_t sends_once_from = SIZE_MAX;  // bytes: what goes to several ranks costs its sender no more than to one
  std::size_t asks_from = SIZE_MAX, asking_bytes = 0, read_from = SIZE_MAX;  // as in Traits
};

/// T(message) = alpha + bytes · beta.
struct Link {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
  double unsteady = 1;  // times as long bytes take where a rank's peers change from round to round, or send all at once
  double crowd = 1;     // ranks that share each core which moves its messages
  LinkTraits traits{};
  double gap_s = 0;    // what each further message of those that are under way together adds
  double filling = 1;  // share of the time in which a pipeline fills that is lost: ranks may be in the call before
  LinkSource source = LinkSource::assumed;
};

inline constexpr int kAllRanks = -1;

/// Measured: T = rounds·alpha + volume·bytes·beta, with rounds and volume of the registry and α and β of this algorithm
/// alone (PCCL, section IV-C: with one β for all, a ring and a recursive algorithm never cross).
struct Fit {
  Kind kind{};
  std::string algorithm;       // a row of the registry
  int level = kAllRanks;       // in all groups of this level at once; kAllRanks: among all ranks
  std::size_t from_bytes = 0;  // of the group's full buffer: holds from here up to the next fit of the same algorithm
  double alpha_s = 0;
  double beta_s_per_byte = 0;
  bool half = false;  // of sums of 16-bit floats, which on GPUs may have fits of their own
};

/// How a hierarchical call differs from the sum of its levels: measured over numbers of chunks.
struct Overlap {
  Kind kind{};
  double hidden = 1;   // share of the faster levels' time that runs beside the slowest, once there are many chunks
  double latency = 1;  // share of the rounds' latency that each further chunk adds
  double scale = 1;    // time of one chunk over the sum of its levels
};

/// What a file names for calls of these sizes; taken where it is valid.
struct Pin {
  Kind kind{};
  std::size_t least_bytes = 0, most_bytes = 0;  // of the full buffer
  std::string algorithm;
  int chunks = 0;  // 0: the best number of this algorithm
};

/// What moves calls among the GPUs of a host, measured: T = α + bytes·β for a number of ranks, so neither rounds nor
/// volume enter. `algorithm`: an engine's name, or "nccl".
struct PeerFits {
  std::string gpu;  // the kind of GPU, by its driver's name
  int ranks = 0;
  std::string file;  // that the user has named; empty: it was found in the cache
  std::vector<Fit> fits;
};

/// Equal on every rank, or ranks would choose differently.
struct Models {
  std::vector<Link> links;           // per level of the topology, outermost first, and one for the innermost domains
  double reduce_s_per_byte = 1e-10;  // what adding two values costs a core; what a rank receives to reduce it also adds
  std::vector<Fit> fits;
  std::vector<Overlap> overlaps;
  std::vector<Learned> learned;       // go before all of the above; at most one of each collective
  std::vector<Pin> pins;              // go before these
  std::vector<PeerFits> peers;        // of calls on GPUs by peer memory, which know none of the above
  std::vector<GpuModel> gpu_models;   // of calls on GPUs; go before these, and between hosts before `learned`
  std::string timing;                 // when and how links were timed, for people
  const GpuKind* gpu = &kUnknownGpu;  // of all ranks' GPUs

  bool measured() const { return !fits.empty(); }
  /// The fit for a group's buffer of so many bytes, or null.
  const Fit* find(Kind kind, std::string_view algorithm, int level, std::size_t bytes) const;
  Overlap overlap(Kind kind) const;
  /// The first for a call of so many bytes, or null.
  const Pin* pin(Kind kind, std::size_t bytes) const;
};

/// The models as a subgroup sees them, whose topology is topology.subset(ranks): levels that do not divide it are gone.
Models subset(const Models& models, const Topology& topology, const std::vector<int>& ranks);

}  // namespace lanecast
