// SPDX-License-Identifier: Apache-2.0
// Binds a plan's blocks to bytes, once the counts are known.
#pragma once

#include <array>
#include <vector>

#include "base/dtype.h"
#include "plan/plan.h"
#include "transport/transport.h"

namespace lanecast {

/// What a call looks like, without its buffers: equal shapes share everything but addresses.
struct Shape {
  DType dtype{};
  ReduceOp op{};
  int chunks = 1;
  Chunk slice;                      // that is cut in `chunks`; the rest of each part is for other communicators
  bool is_barrier = false;          // as Call::is_barrier
  std::size_t count = 0;            // elements of each part
  std::vector<std::size_t> counts;  // of each part, where they differ
  // Of the parts that this rank brings and ends with, where it knows no others.
  std::vector<std::size_t> send_counts, recv_counts;
  /// Elements of a part that a chunk holds at most, where such parts are cut each by itself: its two ranks alone know
  /// how much there is to cut, and the chunks are as many as this rank's largest part has. 0: all are cut in `chunks`.
  std::size_t piece = 0;
  Chunk chunk(int k) const { return {slice.index * chunks + k, slice.count * chunks}; }
  bool own_counts() const { return !send_counts.empty() || !recv_counts.empty(); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

constexpr std::size_t pieces_of(std::size_t count, std::size_t piece) { return (count + piece - 1) / piece; }

class Layout {
 public:
  Layout(const Plan& plan, const Shape& shape);

  struct Place {
    std::int32_t space = kIn;  // kIn, kOut, or kScratch for any slot
    std::size_t offset = 0;    // bytes
    std::size_t bytes = 0;
  };
  Place place(const Block& block, Chunk whole) const;
  /// A part's elements and the chunk as that part is cut; no elements where it has no such chunk.
  struct Cut {
    std::size_t count = 0;
    Chunk chunk;
  };
  Cut cut(std::int32_t part, Chunk chunk) const;
  /// 0 for a part whose count this rank does not know.
  std::size_t elements(const Piece& piece, Chunk chunk) const;

  std::size_t in_bytes() const { return in_.back(); }
  std::size_t out_bytes() const { return out_.back(); }
  std::size_t scratch_bytes() const { return slots_.back(); }  // of one chunk in flight

 private:
  std::size_t count_of(std::int32_t part) const;
  std::vector<std::size_t> offsets(PartRange parts) const;

  const Plan& plan_;
  const Shape& shape_;
  std::size_t element_bytes_;
  PartRange inputs_, outputs_;
  std::vector<std::size_t> in_, out_, slots_;  // offsets in bytes, with the total at the end
};

/// The spans of all steps for one chunk. Neighbours in memory are one span; empty ones are dropped.
class BoundSteps {
 public:
  void bind(const Plan& plan, const Layout& layout, Chunk chunk);
  void locate(const std::array<std::byte*, 3>& bases);  // input, output, scratch

  std::span<const Span> src(std::size_t step) const { return list(2 * step); }
  std::span<const Span> dst(std::size_t step) const { return list(2 * step + 1); }
  std::size_t src_bytes(std::size_t step) const { return bytes_[2 * step]; }
  std::size_t dst_bytes(std::size_t step) const { return bytes_[2 * step + 1]; }

 private:
  std::span<const Span> list(std::size_t k) const { return {spans_.data() + first_[k], first_[k + 1] - first_[k]}; }

  std::vector<Layout::Place> places_;
  std::vector<Span> spans_;
  std::vector<std::uint32_t> first_;  // 2 * step: src, 2 * step + 1: dst
  std::vector<std::size_t> bytes_;
};

}  // namespace lanecast
