// SPDX-License-Identifier: Apache-2.0
// What carries messages between simulated ranks, and has the clock. Ranks are no threads: they hear of what happens.
#pragma once

#include <cstddef>
#include <memory>

#include "job.h"
#include "transport/transport.h"

namespace lanecast::simulator {

/// A message that has been posted at both ends.
struct Parcel {
  int from = -1, to = -1;  // ranks
  Message* sent = nullptr;
  Message* received = nullptr;
};

class Network {
 public:
  /// Those who are told. What they ask of the network meanwhile lies at the same moment or later.
  class Ranks {
   public:
    virtual void arrived(const Parcel& parcel) = 0;
    virtual void woken(int rank) = 0;

   protected:
    ~Ranks() = default;
  };

  virtual ~Network() = default;
  virtual double now_s() const = 0;
  virtual void carry(const Parcel& parcel, double from_s) = 0;
  virtual void wake(int rank, double at_s) = 0;
  /// Until nothing is left to happen.
  virtual void run(Ranks& ranks) = 0;
};

}  // namespace lanecast::simulator
