// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/call.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

/// One rank's buffers as the call describes them.
class CallCheck {
 public:
  CallCheck(const Call& call, int rank, int size)
      : call_(call),
        rank_(rank),
        size_(size),
        element_(size_of(call.dtype)),
        collective_(collective_of(call, size, false)),
        inputs_(collective_.inputs(rank)),
        outputs_(collective_.outputs(rank)) {}

  bool run() const {
    if (has_root(call_.kind) && (call_.root < 0 || call_.root >= size_))
      refuse("root: rank " + std::to_string(call_.root) + " does not exist among " + std::to_string(size_));
    counts();
    if (collective_.reduces() && !supports(call_.op, call_.dtype))
      refuse("op " + std::string(name_of(call_.op)) + " does not take dtype " + std::string(name_of(call_.dtype)));
    if (call_.chunks < 0 || call_.chunks > kMostChunks)
      refuse("chunks: " + std::to_string(call_.chunks) + " is not from 0 to " + std::to_string(kMostChunks));
    slice();
    return buffers();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError("rank " + std::to_string(rank_) + ": " + std::string(name_of(call_.kind)) + ": " + what);
  }

  void counts() const {
    if (!call_.counts.empty()) shared_counts();
    if (call_.counts_on_device)
      counts_on_device(*call_.counts_on_device);
    else if (call_.own_counts())
      own_counts();
    // Keeps every sum of counts, and every offset in bytes, within 64 bits.
    const std::size_t most = SIZE_MAX / element_ / static_cast<std::size_t>(size_) / 2;
    const auto too_large = [most](std::size_t count) { return count > most; };
    if (too_large(call_.count) || std::ranges::any_of(call_.counts, too_large) ||
        std::ranges::any_of(call_.send_counts, too_large) || std::ranges::any_of(call_.recv_counts, too_large))
      refuse("count: larger than any memory");
  }

  void slice() const {
    const Chunk slice = call_.slice;
    if (slice.count < 1 || slice.count > kMostSlices || slice.index < 0 || slice.index >= slice.count)
      refuse("slice: " + std::to_string(slice.index) + " of " + std::to_string(slice.count) + " is none of at most " +
             std::to_string(kMostSlices));
    if (slice.count > 1 && call_.own_counts())
      refuse("slice: with send_counts and recv_counts no rank knows how long the slices of others are");
  }

  void shared_counts() const {
    if (call_.kind == Kind::all_reduce || call_.kind == Kind::broadcast || call_.kind == Kind::reduce)
      refuse("counts: there are no shares, all ranks have the whole vector; give count");
    if (call_.kind == Kind::all_to_all)
      refuse("counts: give send_counts and recv_counts, which differ from rank to rank");
    if (call_.counts.size() != static_cast<std::size_t>(size_))
      refuse("counts: needs one per rank (" + std::to_string(size_) + "), got " + std::to_string(call_.counts.size()));
  }

  void counts_on_device(const CountsOnDevice& given) const {
    if (call_.kind != Kind::all_to_all || !call_.counts.empty() || !call_.send_counts.empty() ||
        !call_.recv_counts.empty())
      refuse("counts in the GPU's memory: only all_to_all takes them, and no others beside them");
    if (given.ranks != static_cast<std::size_t>(size_))
      refuse("counts in the GPU's memory: needs one for each of " + std::to_string(size_) + " ranks, got " +
             std::to_string(given.ranks));
    if (given.sends == nullptr || given.receives == nullptr) refuse("counts in the GPU's memory: null pointer");
    if (given.bound > SIZE_MAX / element_ / std::max<std::size_t>(given.row, 1) / given.ranks / 2)
      refuse("bound: larger than any memory");
  }

  void own_counts() const {
    if (call_.kind != Kind::gather && call_.kind != Kind::scatter && call_.kind != Kind::all_to_all)
      refuse("send_counts, recv_counts: only gather, scatter and all_to_all take them; give counts");
    if (!call_.counts.empty()) refuse("counts: give either them or send_counts and recv_counts");
    const auto one_each = [this](const char* name, std::span<const std::size_t> given, PartRange parts) {
      if (given.size() != static_cast<std::size_t>(parts.count))
        refuse(std::string(name) + ": needs " + std::to_string(parts.count) + " on this rank, got " +
               std::to_string(given.size()));
    };
    one_each("send_counts", call_.send_counts, inputs_);
    one_each("recv_counts", call_.recv_counts, outputs_);
    for (std::int32_t k = 0; k < outputs_.count; ++k)
      if (const std::int32_t part = outputs_[k]; inputs_.has(part))
        if (const std::size_t sends = call_.send_counts[inputs_.index(part)]; sends != call_.recv_counts[k])
          refuse("recv_counts: rank " + std::to_string(rank_) + " sends itself " + std::to_string(sends) +
                 " elements, but expects " + std::to_string(call_.recv_counts[k]));
  }

  /// Of the first `n` of these parts.
  std::size_t bytes(PartRange parts, std::span<const std::size_t> own, std::int32_t n) const {
    if (!call_.own_counts() && call_.counts.empty()) return call_.count * static_cast<std::size_t>(n) * element_;
    std::size_t elements = 0;
    for (std::int32_t k = 0; k < n; ++k) elements += call_.own_counts() ? own[k] : call_.counts[parts[k]];
    return elements * element_;
  }

  bool buffers() const {
    const auto* in = static_cast<const std::byte*>(call_.in);
    const auto* out = static_cast<const std::byte*>(call_.out);
    const auto& on_device = call_.counts_on_device;
    const auto all = [&](std::size_t rows, PartRange parts, std::span<const std::size_t> own) {
      return on_device ? rows * on_device->row * element_ : bytes(parts, own, parts.count);
    };
    const std::size_t in_bytes = all(on_device ? on_device->in_rows : 0, inputs_, call_.send_counts);
    const std::size_t out_bytes = all(on_device ? on_device->out_rows : 0, outputs_, call_.recv_counts);
    if (in_bytes > 0 && in == nullptr) refuse("input: null pointer");
    if (out_bytes > 0 && out == nullptr) refuse("output: null pointer");
    // A rank that brings nothing, or ends with nothing, has one buffer, wherever the other pointer leads.
    const bool both = inputs_.count > 0 && outputs_.count > 0 && in_bytes + out_bytes > 0;
    if (!both || in >= out + out_bytes || out >= in + in_bytes) return false;
    if (!may_be_in_place(call_.kind)) refuse("input and output overlap; it cannot be in-place");

    std::int32_t shared = 0;
    while (!inputs_.has(outputs_[shared])) ++shared;
    const std::size_t before_in = bytes(inputs_, call_.send_counts, inputs_.index(outputs_[shared]));
    const bool in_place = in + before_in == out + bytes(outputs_, call_.recv_counts, shared);
    if (!in_place && in_bytes > 0 && out_bytes > 0)
      refuse("input and output overlap; in-place needs rank " + std::to_string(rank_) + "'s share at the same address");
    return in_place;
  }

  const Call& call_;
  int rank_;
  int size_;
  std::size_t element_;
  Collective collective_;
  PartRange inputs_, outputs_;
};

}  // namespace

std::size_t full_bytes(const Call& call, int size) {
  if (call.own_counts()) return 0;
  std::size_t elements = 0;
  for (std::size_t count : call.counts) elements += count;
  const int parts = call.kind == Kind::all_to_all ? size : collective_of(call, size, false).parts();
  if (call.counts.empty()) elements = call.count * static_cast<std::size_t>(parts);
  return elements * size_of(call.dtype);
}

Collective collective_of(const Call& call, int size, bool in_place) {
  return {call.kind, size, in_place, has_root(call.kind) ? call.root : 0, call.reproducible.value_or(false)};
}

bool check(const Call& call, int rank, int size) { return CallCheck(call, rank, size).run(); }

}  // namespace lanecast
