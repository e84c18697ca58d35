// SPDX-License-Identifier: Apache-2.0
// How calls among GPUs that see each other's memory are cut: by how many multiprocessors, into pieces how long, and by
// which of the kernels that an engine has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {

/// Of a kernel that carries pieces through slots.
struct KernelCut {
  int blocks;                 // at most
  std::size_t longest_piece;  // bytes, of a block; slots may have room for less
};

/// Of one group, equal on its members where the arguments are. Bytes are of the largest message of any two of them.
class PeerCuts {
 public:
  /// max_ctas: multiprocessors that a kernel takes for the group; most_ctas: that any kernel could.
  PeerCuts(const GpuKind& kind, int max_ctas, int most_ctas)
      : kind_(&kind), max_ctas_(max_ctas), most_ctas_(most_ctas) {}

  int max_ctas() const { return max_ctas_; }
  /// At most half of a kernel's multiprocessors are for a call: something else computes meanwhile.
  bool few_ctas() const { return max_ctas_ <= most_ctas_ / 2; }

  /// Of a kernel that carries messages, or pieces of them.
  int blocks(std::size_t bytes) const;
  KernelCut exchange(std::size_t bytes, bool reduces) const;
  KernelCut broadcast(std::size_t bytes) const;
  /// Along a chain, by the bytes of its vector; pumped: by copy engines of multiprocessors.
  KernelCut chain(std::size_t bytes, bool pumped) const;
  bool chain_pumped(std::size_t bytes) const { return bytes >= kind_->chain.pumped; }
  /// Of an all-reduce in two shots; pumped: by copy engines of multiprocessors.
  KernelCut two_shot(std::size_t bytes, int ranks, bool pumped) const;
  /// Is it worth that, where a rank sends so many bytes in each shot?
  bool pumped(std::size_t sent_bytes) const;
  /// That a KiB takes a block at least, of so many; 0: as fast as it goes. See gpu::Exchange::pace_ps.
  std::uint32_t pace_ps(int ranks, int blocks) const;

  /// Of a program, by its longest message; `most` that any may have.
  int lanes(std::size_t bytes, int most) const;
  /// So many blocks, `most` at most, share a message.
  std::size_t sharers(std::size_t bytes, int most) const;
  /// What a block moves of its share at a time.
  std::size_t piece(std::size_t share_bytes, std::size_t longest) const;

  /// On symmetric memory, of a kernel that works at the peers; meeting: as many as would meet them. all_reduce: it
  /// reads and writes there.
  int direct_blocks(int meeting, bool all_reduce) const;
  /// Do copy engines serve a call there? multicast: what is sent is the same for all; apart: a kernel has to copy what
  /// a rank keeps. Copy engines begin later than a kernel, are faster then, and take no multiprocessor. Ranks need not
  /// agree.
  bool direct_by_engines(std::size_t bytes, bool multicast, bool apart) const;
  int blocks_beside_engines() const;
  /// Of kernels that copy or add within a GPU, and wait for nobody.
  int local_blocks() const { return kind_->local_blocks; }
  /// Of copy engines through staging memory that has room for so many bytes in a chunk.
  std::size_t engine_chunk(std::size_t room_bytes) const;

 private:
  const GpuKind* kind_;
  int max_ctas_, most_ctas_;
};

}  // namespace lanecast
