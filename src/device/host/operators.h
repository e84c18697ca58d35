// SPDX-License-Identifier: Apache-2.0
// The reduction operators on vectors of values. The caller hands integers over as unsigned where they must wrap.
#pragma once

#include "device/host/vector.h"

namespace lanecast::host {
namespace {

struct Sum {
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
};

struct Prod {
  template <class V>
  static V combine(V a, V b) {
    return a * b;
  }
};

// Of two equal values (0 and -0) the later one is taken. A NaN in b loses no comparison; one in a is put back.
struct Min {
  template <class V>
  static V combine(V a, V b) {
    const V smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};

struct Max {
  template <class V>
  static V combine(V a, V b) {
    const V larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};

struct BitAnd {
  template <class V>
  static V combine(V a, V b) {
    return a & b;
  }
};

struct BitOr {
  template <class V>
  static V combine(V a, V b) {
    return a | b;
  }
};

struct BitXor {
  template <class V>
  static V combine(V a, V b) {
    return a ^ b;
  }
};

}  // namespace
}  // namespace lanecast::host
