// SPDX-License-Identifier: Apache-2.0
#include "select/gpu_stages.h"

#include <cstddef>

#include "select/peer_engines.h"
#include "select/peer_lines.h"

namespace lanecast {
namespace {

// Of a message, to or from its slot on the GPU, by as many lanes as a network gets.
constexpr double kSlotCopySPerByte = 1 / 200e9;

}  // namespace

Stage group_step(const Load& load, const Models& models) {
  // Of a rooted call all gather its stripes within hosts.
  const bool is_rooted = load.kind == Kind::broadcast || load.kind == Kind::reduce;
  const Kind kind = is_rooted ? Kind::all_gather : load.kind;
  const PeerLines lines(*models.gpu);
  const auto seconds = [&](std::size_t bytes) {
    return predicted_s(PeerEngine::kernel, {.kind = kind, .ranks = load.ranks, .bytes = bytes}, lines).value_or(0);
  };
  // An all-reduce is a reduce-scatter and an all-gather within the hosts, with the network between the two.
  if (kind == Kind::all_reduce) {
    Load half = load;
    half.kind = Kind::all_gather;
    Stage both = group_step(half, models);
    both.rounds *= 2;
    both.transfer_s *= 2;
    return both;
  }
  return {.rounds = 1, .alpha_s = seconds(0), .transfer_s = seconds(load.bytes) - seconds(0)};
}

std::vector<Stage> slot_copies(const Stage& messages, bool on_host, const Models& models) {
  const double s_per_byte = on_host ? models.gpu->between_hosts.host_copy_s_per_byte : kSlotCopySPerByte;
  const Stage copies{.transfer_s = messages.sent_bytes * s_per_byte};
  return {copies, copies};
}

}  // namespace lanecast
