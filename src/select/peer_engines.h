// SPDX-License-Identifier: Apache-2.0
// What moves a collective among GPUs that see each other's memory, and which of the ways is the fastest: our own
// kernels, the GPUs' copy engines, or NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/kind.h"

namespace lanecast {

/// two_shot: of an all-reduce or a reduce each rank reduces a share, of a broadcast it passes one on; chain: of a
/// broadcast it passes on all, and of a reduce the sum so far; direct: on symmetric memory; nccl: NCCL's collective, or
/// RCCL's.
enum class PeerEngine { kernel, two_shot, chain, copy_engine, direct, nccl };
inline constexpr std::array<std::string_view, 6> kPeerEngines{"peer_kernel", "peer_two_shot", "peer_chain",
                                                              "copy_engine", "peer_direct",   "nccl"};

std::string_view name_of(PeerEngine engine);
std::optional<PeerEngine> peer_engine_from(std::string_view name);

/// How a call is made, as far as which engine is the fastest depends on it.
struct WayCalls {
  bool half = false;         // it adds 16-bit floats
  bool captured = false;     // by a graph, on all ranks
  bool symmetric = false;    // its buffers lie in symmetric memory
  bool copy_engine = false;  // those can be taken
  bool few_ctas = false;     // as in PeerTraffic
  bool operator==(const WayCalls&) const = default;
};

/// A part of it, by the word that files have for it.
struct WayWord {
  std::string_view word;
  bool WayCalls::* part;
};
inline constexpr std::array<WayWord, 5> kWayWords{{
    {"half", &WayCalls::half},
    {"captured", &WayCalls::captured},
    {"symmetric", &WayCalls::symmetric},
    {"copy_engine", &WayCalls::copy_engine},
    {"few_ctas", &WayCalls::few_ctas},
}};

/// What counts for the time of a call.
struct PeerTraffic {
  Kind kind{};
  int ranks = 1;
  std::size_t bytes = 0;   // of the full buffer; equal on all ranks
  bool symmetric = false;  // the buffers are
  bool few_ctas = false;   // at most half of a kernel's multiprocessors are for the call
  bool pumped = false;     // in two shots it goes by the copy engines of multiprocessors
  bool half = false;       // it adds 16-bit floats
  bool nccl = false;       // NCCL is there, and has the call as our kernels have it
  bool chained = false;    // what it adds may be rounded to the type on the way, and be added in any order
  bool captured = false;   // by a graph, on all ranks

  /// From any rank to any other.
  std::size_t message_bytes() const;
};

/// Has the direct engine a way to do it, given symmetric memory?
bool direct_has(Kind kind);
/// Can it move such a call?
bool takes(PeerEngine engine, const PeerTraffic& traffic);

struct GpuKind;
class PeerLines;
/// By what was measured of calls of this kind, else by what is assumed. Of an engine that takes the call; none where
/// others were measured, and this one was not, for NCCL beside GPUs for which nobody has timed it, and for a reduce
/// along a chain that nobody has.
std::optional<double> predicted_s(PeerEngine engine, const PeerTraffic& traffic, const PeerLines& lines);
/// has_staging: copy engines can be taken: a call has named them before. To open it at a call that is not to know would
/// bring all ranks together in the midst of work, in an order that they need not share among communicators.
PeerEngine fastest(const PeerTraffic& traffic, const PeerLines& lines, bool has_staging);
/// On windows the direct engine costs one more launch, and each rank may offer its own or not. Pumps are as fast.
bool worth_an_offer(const PeerTraffic& traffic, const GpuKind& gpu);

}  // namespace lanecast
