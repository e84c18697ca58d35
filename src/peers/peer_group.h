// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that run collectives by reading and writing each other's GPUs: by one kernel, or by copy engines.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "peers/engine_streams.h"
#include "peers/faults.h"
#include "peers/group_memory.h"
#include "peers/launches.h"
#include "peers/message_channels.h"
#include "peers/parcels.h"
#include "peers/program_peers.h"
#include "select/peer_cuts.h"

namespace lanecast::peers {

struct PeerOptions {
  double timeout_s = 300;
  int max_ctas = gpu::kMostBlocks;  // multiprocessors that a kernel takes which waits for other ranks
  const GpuKind* kind = &kUnknownGpu;
};

/// Buffers of this rank in windows: where they begin, and their places as Windows::place() has them; 0 for one that no
/// peer needs to reach.
struct WindowBuffers {
  gpu::Address table = 0;  // Windows::table(); 0: no offer of them is made
  gpu::Address in = 0, out = 0;
  gpu::u64 in_place = 0, out_place = 0;
};

/// One call, ordered by its stream.
struct PeerCall {
  Parcels parcels;
  DType dtype{};
  ReduceOp op{};
  double divisor = 1;           // an average's
  std::uint16_t signature = 0;  // equal on ranks that make the same call
  WindowBuffers windows = {};   // of a call by kernels, to be offered to the peers first
  std::uint32_t overrange = 0;  // of an average, as base/overrange.h says
};

/// All methods but fault() make the device current by themselves; members make the same calls in the same order, but
/// for messages.
class PeerGroup {
 public:
  /// Collective over the members. Throws on all where it does on one.
  PeerGroup(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gpu::Kernels> kernels, const Bootstrap& members,
            const PeerOptions& options);

  int rank() const { return memory_.rank(); }
  int size() const { return memory_.size(); }

  void copy(void* to, const void* from, std::size_t bytes, gpu::Stream stream) const;
  /// By one kernel, which waits for the other ranks' while it runs. Throws UsageError for too long a message before
  /// anything is enqueued.
  void by_kernel(const PeerCall& call, gpu::Stream stream);
  /// The same, of an all-reduce, a reduce or a broadcast: each rank reduces a share of it, or gets that from the root,
  /// and its kernel tells the others the result, or the root alone.
  void by_two_shot(const PeerCall& call, gpu::Stream stream);
  /// The same, of a broadcast: each rank passes on what it gets to the next one. Or of a reduce that is no average: it
  /// adds what it brings, so the order of additions is the chain's.
  void by_chain(const PeerCall& call, gpu::Stream stream);
  /// Is an all-reduce in two shots by the copy engines of multiprocessors? Equal on all members; one whose addresses do
  /// not suit them moves its pieces by threads.
  bool pumps(DType dtype, ReduceOp op, std::size_t bytes) const;
  /// Everyone has come here, and what stands before it in their streams is done.
  void barrier(std::uint16_t signature, gpu::Stream stream) const;
  /// By copy engines, in chunks through staging memory, and where it reduces by a kernel that waits for nobody. Needs
  /// open_staging(), which is collective over the members: few groups make such calls.
  void by_copy_engine(const PeerCall& call, gpu::Stream stream);
  void open_staging(const Bootstrap& members);
  bool has_staging() const { return staging_ != nullptr; }
  const PeerCuts& cuts() const { return cuts_; }

  /// With buffers in symmetric memory, at the same place on all members: the output of what is copied; the input of
  /// what is reduced, and its output where all get the result, else null.
  void by_direct(const PeerCall& call, const SharedMemory* input, const SharedMemory* output, gpu::Stream stream);

  /// Null before open_programs(), which is collective over the members.
  const ProgramPeers* programs() const { return programs_.get(); }
  void open_programs(const Bootstrap& members);
  /// How many lanes a program has whose longest message is of so many bytes; equal on all members for equal bytes.
  int lanes_for(std::size_t longest_bytes) const { return cuts_.lanes(longest_bytes, gpu::kMostLanes); }

  /// Messages between two members, see MessageKernels::exchange().
  void exchange(std::span<const PeerMessage> messages, gpu::Stream stream) const;

  /// Of the waits of the kernels that are enqueued from now on.
  void set_timeout(double timeout_s) { faults_.set_timeout(timeout_s); }

  std::optional<PeerFault> fault() const { return faults_.met(); }
  /// Own kernels stop waiting; the peers' do after poison_peers(), without a word: whoever has them stop says why.
  void poison() { faults_.poison(); }
  void poison_peers();
  /// Hears of each kernel of this group that is launched from now on.
  void listen(Launches::Listener listener) { launches_.listen(std::move(listener)); }
  /// gpu::Control of this member.
  gpu::Address control() const { return memory_.control(); }

 private:
  friend class CopyPipeline;  // a call of this group, of so many steps that it has a file of its own

  /// What a member makes by itself.
  struct Own {
    Launches launches;
    Faults faults;
    EngineStreams engines;
    gpu::OwnedStream poison;
  };
  PeerGroup(Own own, std::shared_ptr<gpu::Device> device, const Bootstrap& members, const PeerOptions& options);

  void direct_copy(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const;
  void direct_copy_by_engines(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const;
  void direct_reduce(const PeerCall& call, const SharedMemory& input, const SharedMemory* output,
                     gpu::Stream stream) const;
  struct Share {
    std::size_t begin = 0, bytes = 0;
  };
  /// The k-th of so many shares of a vector; the first one is the largest.
  static Share share_of(std::size_t bytes, int k, int shares);
  /// Member q's share of a vector where the root has none; root < 0: all have one.
  Share share_beside(int root, std::size_t bytes, int q) const;
  gpu::Exchange exchange_arguments(const PeerCall& call) const;
  /// A broadcast in two shots.
  void spread(const PeerCall& call, gpu::Stream stream);
  /// Messages into pieces, by the largest one of any two members; returns how many blocks carry them.
  int cut(gpu::Exchange& x, std::size_t largest_bytes, const KernelCut& how) const;
  /// With buffers in windows, wherever each member has them. Where any member has them elsewhere nothing is moved, and
  /// what stands behind this kernel makes the call. Members that do not offer enqueue that alone.
  void offer(const PeerCall& call, gpu::Stream stream) const;
  /// Of a kernel that meets the other ranks'; equal on all for equal bytes.
  int meeting_blocks(std::size_t bytes) const;
  /// Of one that works at the peers; likewise.
  int direct_blocks(const Parcels& parcels, std::size_t bytes) const;

  gpu::GroupArguments group(std::uint16_t signature) const;

  std::shared_ptr<gpu::Device> device_;
  Launches launches_;
  PeerCuts cuts_;
  Faults faults_;
  GroupMemory memory_;
  MessageChannels channels_;
  MessageKernels messages_;
  std::unique_ptr<SharedMemory> staging_;   // null before the first call by copy engines
  std::unique_ptr<ProgramPeers> programs_;  // null before the first program
  EngineStreams engines_;
  bool pumps_ = false;       // all members' devices have kernels with them
  gpu::OwnedStream poison_;  // which nothing else keeps waiting
};

}  // namespace lanecast::peers
