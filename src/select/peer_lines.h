// SPDX-License-Identifier: Apache-2.0
// What is known of the ways among the GPUs of a host, laid out for a look in the midst of a call: what was measured,
// and the kind of GPU, of which the rest is assumed.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "select/gpu_kinds/gpu_kind.h"
#include "select/models.h"
#include "select/peer_engines.h"

namespace lanecast {

class PeerLines {
 public:
  /// Nothing was measured.
  explicit PeerLines(const GpuKind& gpu = kUnknownGpu) : gpu_(&gpu) {}
  explicit PeerLines(const std::vector<Fit>& fits, const GpuKind& gpu = kUnknownGpu);
  /// Of those that hold for so many ranks with GPUs of one kind; for collectives that nobody has measured, what comes
  /// with the library. Throws UsageError where the user has named files, and all were measured on others.
  static PeerLines among(const Models& models, std::string_view gpu, int ranks);
  /// As learned from a file.
  static PeerLines learned_from(const GpuModel& model, int ranks);

  const GpuKind& gpu() const { return *gpu_; }
  /// Was the kernel measured, which takes every call? Elsewhere all ways are assumed: times that were measured and some
  /// that were not say nothing about which is shorter.
  bool measured(const PeerTraffic& traffic) const;
  /// None for what was not measured.
  std::optional<double> seconds(PeerEngine engine, const PeerTraffic& traffic) const;
  /// From times of whole calls; goes before all of the above.
  const LearnedWays& learned() const { return learned_; }
  /// Was NCCL timed in such a call on this machine?
  bool knows_nccl(const PeerTraffic& traffic, bool has_staging) const {
    return seconds(PeerEngine::nccl, traffic) || (!learned_.is_shipped() && learned_.fastest(traffic, has_staging));
  }
  /// What does not depend on the bytes.
  double latency_s(PeerEngine engine, const PeerTraffic& traffic) const;

 private:
  struct Line {
    std::size_t from_bytes;
    double alpha_s, beta_s_per_byte;
  };
  using Ways = std::array<std::vector<Line>, kPeerEngines.size()>;  // each ascending by from_bytes
  using Kinds = std::array<Ways, kKinds>;

  /// Of which collectives was the kernel measured?
  LearnedWays::OfKinds measured_kinds() const;
  /// Sums of 16-bit floats have their own where those were measured.
  const Line* find(PeerEngine engine, const PeerTraffic& traffic) const;

  const GpuKind* gpu_;
  Kinds of_, of_half_;
  LearnedWays learned_;
};

}  // namespace lanecast
