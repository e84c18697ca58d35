// SPDX-License-Identifier: Apache-2.0
// Which rank sits where: levels from the outermost (nodes, say) inwards; and how a node's ranks share its NICs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lanecast {

/// A way of grouping ranks into domains; the ranks themselves are the innermost level and have no entry of their own.
struct Level {
  std::string name;         // "node", "device"
  std::vector<int> domain;  // of each rank; domains of an inner level lie inside one domain of the level around it
};

enum class NicMap { packed, round_robin, one_to_one };

class Topology {
 public:
  /// One level of everything: `size` ranks side by side.
  explicit Topology(int size) : Topology(size, {}) {}
  /// Throws UsageError where there is no rank, or the levels do not nest or do not cover every rank.
  Topology(int size, std::vector<Level> levels);

  /// "2x4" (2 nodes of 4), "2x2x2", uneven nodes "3+2+4"; ":cyclic" deals the ranks out like cards, ":block" (the
  /// default) fills node after node. Throws UsageError unless it describes exactly `size` ranks.
  static Topology parse(std::string_view text, int size);

  /// Ranks that report the same host share a node; "host" is any string, in rank order.
  static Topology from_hosts(const std::vector<std::string>& hosts);

  int size() const { return size_; }
  int levels() const { return static_cast<int>(levels_.size()); }
  const Level& level(int k) const { return levels_[k]; }

  /// `ranks` by their domains at level k, in order of first appearance. Throws UsageError for what does not exist.
  std::vector<std::vector<int>> partition(const std::vector<int>& ranks, int k) const;
  std::vector<int> everyone() const;

  /// Do these ranks sit in more than one domain of level k?
  bool divides(const std::vector<int>& ranks, int k) const;

  /// Level at which two ranks part ways; levels() for two of one innermost domain.
  int parting_level(int a, int b) const;

  /// Sizes of the groups in which ranks meet: how many domains share each domain around them, per level from the
  /// outermost inwards, then how many ranks each innermost domain has.
  std::vector<std::vector<std::size_t>> group_sizes() const;

  /// The same places seen by a subgroup whose k-th rank is ranks[k]; levels that no longer divide anything are dropped.
  /// Throws UsageError where `ranks` is empty or names one that does not exist.
  Topology subset(const std::vector<int>& ranks) const;

  /// "2x4", "3+2+4", "8"; "2x2x2" for even nested levels.
  std::string str() const;

  /// One number for who sits where, which str() does not tell; names of levels and numbers of domains do not count.
  std::uint64_t digest() const;

 private:
  int size_;
  std::vector<Level> levels_;
};

/// NIC of each of `ranks` ranks of a node with `nics` NICs. packed: neighbours share one; round_robin: dealt out.
/// Throws UsageError where one_to_one does not fit.
std::vector<int> assign_nics(int ranks, int nics, NicMap map);

/// Share of the node's NIC bandwidth that this map can use when every rank sends equally much: 12 ranks dealt out on 8
/// NICs reach 0.75, since four NICs carry twice what the others do (HiCCL, section VI). Throws UsageError for a NIC
/// that does not exist.
double nic_balance(const std::vector<int>& nic_of_rank, int nics);

}  // namespace lanecast
