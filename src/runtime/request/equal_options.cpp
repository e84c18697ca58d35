// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/equal_options.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace lanecast {
namespace {

/// One a line.
std::string in_words(const CommunicatorOptions& options, const Topology& topology) {
  return "topology " + topology.str() + "\nplaces in it " + std::to_string(topology.digest()) + "\ntransports '" +
         options.transports + "'\nalgorithm '" + options.algorithm + "'\nchunks " + std::to_string(options.chunks) +
         "\nreproducible " + (options.reproducible.value_or(false) ? "1" : "0") + "\ncheck_calls " +
         (options.check_calls ? "1" : "0") + "\nmax_ctas " + std::to_string(options.max_ctas) + "\ngpu_messages '" +
         options.gpu_messages + "'\nlinks '" + options.links + "'\nallow_shared_gpu " +
         (options.allow_shared_gpu ? "1" : "0") + "\ndevice " + (options.device >= 0 ? "given" : "left out") + "\n";
}

std::string line_at(const std::string& text, std::size_t position) {
  const std::size_t begin = text.rfind('\n', position) + 1;  // npos + 1 is the first line's
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

CommunicatorOptions equal_on_all(const Bootstrap& bootstrap, CommunicatorOptions options) {
  const std::vector<std::string> all =
      bootstrap.all_gather_strings(in_words(options, options.placed.value_or(Topology(bootstrap.size))));
  for (int rank = 1; rank < bootstrap.size; ++rank) {
    const std::string &first = all[0], &other = all[rank];
    std::size_t same = 0;
    while (same < first.size() && same < other.size() && first[same] == other[same]) ++same;
    if (same == first.size() && same == other.size()) continue;
    const std::size_t line = same > 0 ? same - 1 : 0;  // `same` may be a line's end on one rank only
    throw UsageError("options have to be equal on all ranks: rank 0 has " + line_at(first, line) + ", rank " +
                     std::to_string(rank) + " " + line_at(other, line));
  }
  return options;
}

}  // namespace lanecast
