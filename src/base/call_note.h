// SPDX-License-Identifier: Apache-2.0
// What a rank lets its peers know about a call it makes, so that they can compare it with theirs.
#pragma once

#include <array>
#include <cstdint>

namespace lanecast {

struct CallNote {                  // travels between processes
  std::uint64_t communicator = 0;  // its id, equal on its ranks and unlike others'
  std::uint64_t sequence = 0;      // of the call in its communicator, from 1
  std::uint64_t chain = 0;         // a hash of this call and all before it: equal as long as ranks make equal calls;
                                   // 0: its rank has forgotten it
  std::array<char, 168> text{};    // the call for people, cut off where it is longer; ends with a zero
};

}  // namespace lanecast
