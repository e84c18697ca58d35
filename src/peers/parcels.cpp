// SPDX-License-Identifier: Apache-2.0
#include "peers/parcels.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast::peers {
namespace {

class ParcelWriter {
 public:
  ParcelWriter(const GroupCall& call, int me, int members, const PartAddresses& addresses)
      : call_(call), addresses_(addresses), element_bytes_(size_of(call.dtype)), me_(me), members_(members) {
    parcels_.send.resize(members);
    parcels_.receive.resize(members);
    parcels_.reduces = reduces(call.kind);
    parcels_.own_counts = call.own_counts;
    for (const std::size_t count : call.counts) parcels_.largest_bytes = std::max(parcels_.largest_bytes, count);
    parcels_.largest_bytes = call.own_counts ? SIZE_MAX / 2 : parcels_.largest_bytes * element_bytes_;
  }

  Parcels write() {
    const bool is_root = me_ == call_.root;
    switch (call_.kind) {
      case Kind::all_gather:
        multicast(me_);
        collect();
        break;
      case Kind::reduce_scatter:
        deal();
        receive_from_all(me_);
        break;
      case Kind::all_reduce:
        multicast(0);
        receive_from_all(0);
        break;
      case Kind::broadcast:
        parcels_.root = call_.root;
        if (is_root) multicast(0);
        if (!is_root || call_.out) parcels_.receive[call_.root] = out(0);
        if (is_root && !call_.out) parcels_.send[me_] = {};
        break;
      case Kind::reduce:
        parcels_.root = call_.root;
        parcels_.send[call_.root] = in(0);
        if (is_root) receive_from_all(0);
        break;
      case Kind::gather:
        parcels_.send[call_.root] = {gpu::address_of(call_.in), bytes(me_)};
        if (is_root) collect();
        break;
      case Kind::scatter:
        if (is_root) deal();
        parcels_.receive[call_.root] = {gpu::address_of(call_.out), bytes(me_)};
        break;
      case Kind::all_to_all:
        deal();
        collect(members_);
        break;
      case Kind::composition:
        throw InternalError("peer memory: a composition is no call of a group");
    }
    return std::move(parcels_);
  }

 private:
  std::size_t bytes(int k) const { return call_.counts[k] * element_bytes_; }
  Parcel in(int k) const { return {gpu::address_of(call_.in), bytes(k)}; }
  Parcel out(int k) const { return {gpu::address_of(call_.out), bytes(k)}; }

  void multicast(int k) {
    parcels_.multicast = true;
    std::ranges::fill(parcels_.send, in(k));
  }
  void receive_from_all(int k) { std::ranges::fill(parcels_.receive, out(k)); }

  /// Everybody's share of the input.
  void deal() { share(parcels_.send, gpu::address_of(call_.in), addresses_.in, 0); }
  /// A share of the output from everybody.
  void collect(int first_count = 0) {
    share(parcels_.receive, gpu::address_of(call_.out), addresses_.out, first_count);
  }

  void share(std::vector<Parcel>& shares, gpu::Address at, const std::vector<gpu::Address>& addresses,
             int first_count) {
    for (int q = 0; q < members_; ++q) {
      shares[q] = {addresses.empty() ? at : addresses[q], bytes(first_count + q)};
      at += shares[q].bytes;
    }
  }

  const GroupCall& call_;
  const PartAddresses& addresses_;
  std::size_t element_bytes_;
  int me_, members_;
  Parcels parcels_;
};

}  // namespace

Parcels parcels_of(const GroupCall& call, int me, int members, const PartAddresses& addresses) {
  return ParcelWriter(call, me, members, addresses).write();
}

}  // namespace lanecast::peers
