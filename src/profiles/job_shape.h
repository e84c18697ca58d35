// SPDX-License-Identifier: Apache-2.0
// What of a communicator decides whether a profile or a model holds for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace lanecast {

class JsonField;

struct JobShape {
  std::string lanecast;  // its version
  std::string cpu;
  std::int64_t cores = 0;  // of a host
  std::int64_t hosts = 0;
  std::string topology;
  std::vector<std::string> transports;  // per level, outermost first
  int ranks = 0;                        // no field of a file, which has the topology

  /// Throws UsageError (field).
  static JobShape from(const JsonField& field);
  /// As this rank sees it.
  static JobShape of(const Communicator& communicator);
};

/// The processor's name as the kernel gives it.
std::string cpu_model();

/// "cores: 2, not 16; …" for each field in which `there` differs from `here`; empty: none does.
std::string differences(const JobShape& there, const JobShape& here);

/// "mpi,shm"
std::string joined(const std::vector<std::string>& names, const char* between);

}  // namespace lanecast
