// SPDX-License-Identifier: Apache-2.0
// The ranks that call collectives together: what users hold.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/communicator/choosing.h"
#include "runtime/communicator/gpu_calls.h"
#include "runtime/communicator/progress_thread.h"
#include "runtime/communicator/request.h"
#include "runtime/request/options.h"
#include "runtime/watch/surprises.h"
#include "runtime/watch/work.h"
#include "runtime/wires/surroundings.h"

namespace lanecast {

class Communicator {
 public:
  /// Collective. `progress` may serve other communicators as well.
  Communicator(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  const Topology& topology() const;
  std::string transports() const;
  /// Threads of its own move long messages through all NICs of every rank at once: so many has who has the most. 1
  /// where they do not.
  int nics_at_once() const;
  std::string transport_to(int peer) const;
  int hosts() const;
  const CommunicatorOptions& options() const;

  /// Blocks until this rank's buffers may be used again. Throws UsageError before any data moves; after any other error
  /// the communicator has failed and every further call says so.
  void run(const HostRequest& request, const Interrupt& interrupt = {}, std::optional<BesideOthers> beside = {});
  /// Returns at once, but where a library makes groups for the call, which all their members have to come to.
  /// Collectives of one communicator run in the order in which they were made.
  std::shared_ptr<Work> start(const HostRequest& request, const Interrupt& interrupt = {});
  /// On a GPU's memory, in the order of a stream; returns at once. The first call comes together with the other ranks.
  /// Throws UsageError; what happens on the device is thrown by later calls and by GpuCalls::synchronize(). The work:
  /// null where the call is not apart from the caller's stream.
  std::shared_ptr<DeviceWork> enqueue(const GpuRequest& request, const OnStream& where);

  static void wait(Work& work, const Interrupt& interrupt = {});
  /// What keeps a started call, for people: the ranks that it waits for, or the call before it; empty once it is done.
  std::string waits_for(const Work& work);
  /// Has a message for a receive from `peer` with this tag come? Never blocks.
  bool arrived(int peer, int tag);

  /// For PersistentCall, which says what it throws.
  std::shared_ptr<BoundCall> bind(const Call& call);
  std::shared_ptr<BoundCall> bind(const ComposedCall& call);
  void rebind(BoundCall& call, const void* in, void* out);

  /// What is asked of the GPU beside the calls.
  GpuCalls& gpu();
  /// What would run: algorithm and chunks after all defaults. Of calls on the CPU's memory: docs/reference/gpu.md says
  /// what GPUs take.
  const Choosing& choosing() const;
  /// What was chosen here and is slower than predicted; outlives the communicator. A prediction that rests on assumed
  /// links alone is none, nor is that of an algorithm or a number of chunks that the user has named.
  std::shared_ptr<const Surprises> surprises() const;
  /// From now on every rank chooses by rank 0's models, unless they are empty; those of others are not looked at.
  /// Collective, while no started call is under way and no other thread asks what would run. A `refusal` of rank 0
  /// ("profile p.json: …") is thrown on all ranks.
  void adopt(const Models& models, const std::string& refusal, const Interrupt& interrupt = {});

  /// Ranks that give the same color become a communicator, ordered by key, then by rank. Collective; a negative color
  /// takes no part and gets null. max_ctas: as in the options, equal among those with a color; 0: the parent's.
  std::unique_ptr<Communicator> split(int color, int key, const Interrupt& interrupt = {}, int max_ctas = 0);
  /// Fails the communicator, so that its peers need not wait for a rank that will make no more calls. A blocking call
  /// that waits in another thread ends with a TransportError.
  void abort(const std::string& why);
  /// Seconds without progress after which calls made from now on give up; this rank's own affair. Throws UsageError.
  void set_timeout(double timeout_s);
  /// Writes what this rank has called, and where it stands, into `directory`. Any time, also in a call of this thread.
  void write_trace(const std::string& directory) const;

 private:
  struct Parts;
  std::unique_ptr<Communicator> make_child(int color, int key, const Interrupt& interrupt, int max_ctas);

  std::unique_ptr<Parts> parts_;
};

}  // namespace lanecast
