// SPDX-License-Identifier: Apache-2.0
// What was learned from times of whole calls: which algorithm is fastest at a message size and a number of ranks (PCCL,
// section IV-C).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plan/collective.h"
#include "select/svm.h"
#include "topology/topology.h"

namespace lanecast {

struct Models;
struct Request;

/// What an algorithm's time depends on, as it is learned: log2 of the full buffer's bytes, in small steps, and of the
/// ranks, and whether the nodes (of a job without levels: the ranks) are a power of two, for which recursive algorithms
/// are made.
Features features_of(std::size_t bytes, int ranks, int nodes);

/// A call that was timed on so many ranks.
struct TimedCall {
  int ranks = 0;
  std::size_t bytes = 0;
  double seconds = 0;
};

/// Of one collective; asked only inside what it was trained on, since beyond it would be guessing.
struct Learned {
  Kind kind{};
  std::size_t least_bytes = 0, most_bytes = 0;
  int least_ranks = 0, most_ranks = 0;
  std::vector<std::string> algorithms;  // the classes
  /// Of each class the fewest and the most ranks; elsewhere it is not voted for.
  std::vector<std::array<int, 2>> timed_on;
  Svm svm;
  /// Of each class, by ranks, then bytes; none at all where the times say nothing of calls here, as simulated ones.
  std::vector<std::vector<TimedCall>> times;
};

struct Answer {
  std::string algorithm;
  double seconds = 0;  // that such calls took, between those that were timed; 0: not known
};

/// Throws UsageError for what cannot be evaluated.
void check(const Learned& learned);

/// Its algorithm for this request, among those that are valid for it; none without one. Where ranks are no power of
/// two, Bruck's algorithm stands for recursive doubling: as many bytes, and no more rounds than that has for the next
/// one.
std::optional<Answer> ask(const Models& models, const Request& request, const Topology& topology);
/// The same of one machine, among names that are valid; none for a request that it does not cover.
std::optional<Answer> ask(const Learned& learned, const Request& request, const Topology& topology,
                          const std::vector<std::string>& valid);

/// Seconds of one class for a call between those that were timed, in both directions by powers; 0 beyond them.
double timed_s(const std::vector<TimedCall>& times, std::size_t bytes, int ranks);

/// Do nodes look alike inside? Then what was learned for one job's nodes holds for the other's.
bool same_nodes(const Topology& one, const Topology& other);

}  // namespace lanecast
