// SPDX-License-Identifier: Apache-2.0
// Writing what another core then reads, by the kind of store that suits the distance between the two.
//
// Ordinary stores are best when both cores share a cache: the bytes never leave it. Between cores that share none,
// every line has to be fetched back from the reader's cache before it can be written, at a twelfth of the speed; there,
// stores that bypass the cache win. Where a process runs is the scheduler's secret (and a hypervisor's), and
// changes, so the writer times what it writes and goes by that.
#pragma once

#include <cstddef>

#include "base/copy.h"
#include "base/pace.h"

namespace lanecast {

/// Of what goes to one reader.
class StoreChoice {
 public:
  /// write(Stores) writes `bytes` bytes. A release store of the caller orders them before what it publishes.
  template <class Write>
  void write(std::size_t bytes, const Write& write) {
    const auto [stores, timed] = choose(bytes);
    const std::int64_t begin = timed ? clock_ns(bytes) : 0;
    write(stores);
    wait_for_stores(timed ? Stores::bypassing : stores);
    if (timed) pace(stores).learn(clock_ns(bytes) - begin, bytes);
  }
  /// How many times as much ordinary stores have cost of late as those past the cache; 0 until both were tried.
  double ratio() const;

 private:
  struct Way {
    Stores stores;
    bool timed;
  };
  Way choose(std::size_t bytes);
  Pace& pace(Stores stores) { return paces_[static_cast<int>(stores)]; }
  const Pace& pace(Stores stores) const { return paces_[static_cast<int>(stores)]; }

  Pace paces_[2];  // by Stores
  unsigned writes_ = 0;
};

/// By `choice`; null where no other core is known to read it.
template <class Write>
void write_by(StoreChoice* choice, Stores otherwise, std::size_t bytes, const Write& write) {
  choice ? choice->write(bytes, write) : write(otherwise);
}

}  // namespace lanecast
