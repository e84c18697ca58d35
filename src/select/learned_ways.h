// SPDX-License-Identifier: Apache-2.0
// What was learned from times of whole calls on GPUs: among those of a host which engine is the fastest from which size
// on, and between hosts which algorithm.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/kind.h"
#include "select/learned.h"
#include "select/peer_engines.h"

namespace lanecast {

/// Of calls on GPUs of one kind, as a file has it.
struct GpuModel {
  std::string gpu;       // the kind, by its driver's name
  std::string file;      // that the user has named; empty: it was found in the cache
  bool one_host = true;  // classes are engines; else algorithms
  struct Way {
    WayCalls calls;  // that it holds for; between hosts it holds for all
    Learned machine;
  };
  std::vector<Way> ways;
};

struct LearnedBorder;

/// Laid out for a look in the midst of a call. The ranks of a communicator do not change, so a machine of theirs is no
/// more than borders between sizes.
class LearnedWays {
 public:
  LearnedWays() = default;
  LearnedWays(const std::vector<GpuModel::Way>& ways, int ranks);
  using OfKinds = std::array<bool, kKinds>;
  /// What comes with the library for these GPUs, but for kinds that were measured here. It has no times: the ratios
  /// between engines hold on other hosts with such GPUs, times do not.
  LearnedWays(std::string_view gpu, int ranks, const OfKinds& measured);

  /// Nobody has timed any call of so many ranks.
  bool empty() const;
  bool is_shipped() const { return is_shipped_; }

  /// None where nobody has timed such calls, and where this one cannot be made by the fastest.
  std::optional<PeerEngine> fastest(const PeerTraffic& traffic, bool has_staging) const;
  /// Were such calls timed here, by all engines?
  bool is_timed(const PeerTraffic& traffic, bool has_staging) const;
  /// What such a call took here by this engine; none for those that were the fastest at no size.
  std::optional<double> seconds(PeerEngine engine, const PeerTraffic& traffic, bool has_staging) const;
  /// All borders, as a table of a kind of GPU has them.
  std::vector<LearnedBorder> table() const;

 private:
  struct Border {
    std::size_t from_bytes;
    PeerEngine engine;
  };
  struct Borders {
    WayCalls calls;
    std::size_t least_bytes, most_bytes;
    std::vector<Border> from;  // ascending
    std::vector<std::pair<PeerEngine, std::vector<TimedCall>>> times;
  };
  static Borders borders_of(const GpuModel::Way& way, int ranks);
  const Borders* find(const PeerTraffic& traffic, bool has_staging) const;

  int ranks_ = 0;
  bool is_shipped_ = false;
  std::array<std::vector<Borders>, kKinds> of_;
};

}  // namespace lanecast
