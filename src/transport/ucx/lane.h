// SPDX-License-Identifier: Apache-2.0
// A UCX worker with a thread of its own. Over TCP the kernel's work for a message is done in the thread that sends or
// receives it, and one thread moves some 1.2 GB/s each way: less than a fast NIC, and all of it time that the caller's
// thread needs for what goes on inside the host.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/transport.h"
#include "transport/ucx/worker.h"

namespace lanecast::ucx {

/// What a lane carries of a message. Who posts it leaves it alone until the lane hands it back.
struct LaneShare {
  void* owner = nullptr;
  int peer = -1;
  std::uint64_t tag = 0;  // UCX's
  bool receive = false;
  std::vector<Span> memory;
  std::size_t bytes = 0;
  // When it is handed back:
  Status status = kInProgress;
  std::size_t arrived = 0;  // bytes, of a receive
  std::string failure;      // of the connection

  // Of the lane's thread.
  class UcxLane* lane = nullptr;
  Request request = nullptr;
};

class UcxLane {
 public:
  /// Collective. device: the NIC, in UCX's words; empty: as UCX chooses.
  UcxLane(const Bootstrap& bootstrap, const std::string& device);
  ~UcxLane();
  UcxLane(const UcxLane&) = delete;
  UcxLane& operator=(const UcxLane&) = delete;

  /// Returns when the peers' lanes can be reached, or one cannot. To be called while all of them are there: UCX 1.22
  /// ends the process where a peer goes while both connect to each other and have messages for it.
  void connect(std::span<const int> peers);
  void await_connected();
  /// Shares of equal peer and tag meet in the order in which they are posted.
  void post(LaneShare& share);
  /// Appends what has ended. Costs one load where nothing has.
  void take_ended(std::vector<LaneShare*>& ended);

  /// Begins to end whatever is under way, with its connections; nothing is handed back from then on.
  void give_up();
  /// After give_up(): waits until nothing moves any more. UCX may hold on to memory all the same; over
  /// TCP, which lanes are for, it touches none where nobody makes it go on.
  void await_over();

 private:
  void run();
  /// False when there is to be an end.
  bool begin_posted();
  void begin(LaneShare& share);
  void end(LaneShare& share, Status status);
  bool hand_back();
  void let_go();
  /// Until a message moves, a share is posted, or a second has passed: UCX looks after its connections itself.
  void sleep();
  void wake();

  Worker worker_;
  FileDescriptor bell_;  // an eventfd
  std::mutex mutex_;     // over the next five
  std::vector<int> to_connect_;
  std::vector<LaneShare*> posted_, ended_;
  bool to_end_ = false, over_ = false;
  std::condition_variable has_changed_;
  std::atomic<std::size_t> ended_count_{0};
  std::atomic<bool> asleep_{false};
  std::vector<LaneShare*> taken_, under_way_, just_ended_;  // of the thread, until it is over
  std::thread thread_;
};

}  // namespace lanecast::ucx
