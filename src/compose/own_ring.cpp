// SPDX-License-Identifier: Apache-2.0
#include "compose/own_ring.h"

#include <algorithm>
#include <set>

#include "compose/lower.h"

namespace lanecast {
namespace {

/// Each stage waits for the one before; a link carries both directions at once.
class LinkLoad {
 public:
  LinkLoad(const std::vector<std::size_t>& bytes, OwnLink link) : bytes_(bytes), link_(link) {}

  void add(const Plan& plan) {
    double sent = 0, received = 0;
    for (const Step& step : plan.steps) {
      if (!talks(step)) continue;
      stages_.insert(step.stage);
      if (step.kind == StepKind::send)
        sent += bytes_of(plan.src(step));
      else
        received += bytes_of(plan.dst(step));
    }
    most_ = std::max({most_, sent, received});
  }

  double seconds() const { return static_cast<double>(stages_.size()) * link_.hop_s + most_ * link_.s_per_byte; }

 private:
  double bytes_of(std::span<const Block> blocks) const {
    double bytes = 0;
    for (const Block& block : blocks) {
      const double share = static_cast<double>(block.hi.num) / static_cast<double>(block.hi.den) -
                           static_cast<double>(block.lo.num) / static_cast<double>(block.lo.den);
      bytes += share * static_cast<double>(bytes_[block.part]);
    }
    return bytes;
  }

  const std::vector<std::size_t>& bytes_;
  OwnLink link_;
  std::set<std::int32_t> stages_;
  double most_ = 0;
};

}  // namespace

int ring_of_own_links(const std::shared_ptr<const Composition>& composition, const std::vector<std::size_t>& bytes,
                      const Topology& real, OwnLink link) {
  constexpr int kFewest = 3;  // of two a chain is a tree
  if (real.levels() > 0 || real.size() < kFewest) return 1;
  const auto seconds = [&](int ring) {
    Shaping shaping;
    shaping.ring = ring;
    const Machine machine(real, shaping);
    LinkLoad load(bytes, link);
    for (int rank = 0; rank < real.size(); ++rank) load.add(lower(composition, rank, machine, /*in_place=*/false));
    return load.seconds();
  };
  return seconds(real.size()) < seconds(1) ? real.size() : 1;
}

}  // namespace lanecast
