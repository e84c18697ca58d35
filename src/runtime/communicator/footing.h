// SPDX-License-Identifier: Apache-2.0
// What calls of every kind have below them.
#pragma once

namespace lanecast {

struct Ground;
class Gate;
class Failing;
class Waits;

struct Footing {
  Ground& ground;
  Gate& gate;
  Failing& failing;
  Waits& waits;
};

}  // namespace lanecast
