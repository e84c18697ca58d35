// SPDX-License-Identifier: Apache-2.0
// Which algorithm, and in how many chunks: what a file pins, else what was learned from times of whole calls, else a
// cost model over what the registry says of each algorithm and what was measured on the machine.
#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "select/models.h"

namespace lanecast {

/// Only values that are equal on every rank may enter, or ranks would choose differently.
struct Request {
  Kind kind{};
  std::size_t bytes = 0;      // the full buffer: all parts, or of an all-to-all those that one rank brings
  bool own_counts = false;    // each rank knows its own counts only, so none can forward what others are to get
  bool reproducible = false;  // sums are to be reduced in rank order
  bool by_mpi = false;        // MPI is here and has it
  bool on_gpus = false;       // the call's buffers lie on GPUs; group steps are calls of kernels on peer memory
  bool staged = false;        // and messages between hosts pass through the memory of both
};

enum class Decider : std::uint8_t { cost_model, learned, pinned };
std::string_view name_of(Decider decider);

struct Choice {
  std::string algorithm;
  int chunks = 1;
  double seconds = 0;     // predicted
  double latency_s = 0;   // of one chunk, all levels one after the other: what does not depend on the bytes
  bool measured = false;  // from fits of this very algorithm, not from links
  bool timed = false;     // `seconds` are those that such calls took when the choice was learned
  Decider decided_by = Decider::cost_model;
  const char* basis = "";  // of the time, where it is neither links nor measurements here
};

/// Predicted time of one algorithm that algorithms_for() lists, in so many chunks, or the best number for 0: slices
/// that let the levels of a hierarchy overlap, or the rounds of a pipeline.
Choice predict(const Request& request, const Topology& topology, const Models& models, const std::string& algorithm,
               int chunks = 0);

/// What could run: of the transport's own collectives only the whole call's, where there is one.
std::vector<std::string> valid_algorithms(const Request& request, const Topology& topology);

/// All but the transport's own collectives, which no prediction is known for, and hierarchies of hosts with one rank
/// each; the cheapest first.
std::vector<Choice> candidates(const Request& request, const Topology& topology, const Models& models);

/// What is pinned or was learned, else the first of the candidates.
Choice choose(const Request& request, const Topology& topology, const Models& models);

}  // namespace lanecast
