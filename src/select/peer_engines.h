// SPDX-License-Identifier: Apache-2.0
// What moves a collective among GPUs that see each other's memory, and which of the ways is the fastest.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace lanecast {

/// two_shot: an all-reduce as a reduce-scatter and an all-gather; direct: on symmetric memory.
enum class PeerEngine { kernel, two_shot, copy_engine, direct };
inline constexpr std::array<std::string_view, 4> kPeerEngines{"peer_kernel", "peer_two_shot", "copy_engine",
                                                              "peer_direct"};

std::string_view name_of(PeerEngine engine);
std::optional<PeerEngine> peer_engine_from(std::string_view name);

/// What counts for the time of a call.
struct PeerTraffic {
  int ranks = 1;
  std::size_t message_bytes = 0;  // from any rank to any other; equal on all ranks
  bool reduces = false;
  bool reduces_for_all = false;  // an all-reduce
  bool symmetric = false;        // the buffers are
  bool multicast = false;        // what a rank sends is the same for all
};

/// Can it move such a call?
bool takes(PeerEngine engine, const PeerTraffic& traffic);
double predicted_s(PeerEngine engine, const PeerTraffic& traffic);
PeerEngine fastest(const PeerTraffic& traffic);
/// On windows the direct engine costs one more launch, and each rank may offer its own or not.
bool worth_an_offer(const PeerTraffic& traffic);

}  // namespace lanecast
