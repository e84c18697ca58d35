// SPDX-License-Identifier: Apache-2.0
// Lanecast's communicators, each beside one of NCCL's with the same ranks: programs hold NCCL's handles alone, so
// whatever takes one works as ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "capi/preload/real_nccl.h"
#include "capi/preload/side_by_side.h"
#include "device/gpu/driver.h"
#include "lanecast/lanecast.h"
#include "peers/window_memory.h"

namespace lanecast::preload {

struct BesideNccl {
  ~BesideNccl();

  int rank = 0, size = 0;
  lanecastComm_t ours = nullptr;              // null: NCCL takes all calls
  std::string why_not;                        // then
  std::shared_ptr<const gpu::Driver> driver;  // of a communicator of ours
  int ordinal = 0;                            // of its GPU
  std::vector<bool> is_here;                  // which ranks are on this rank's host
  SideStream side;
  bool info = false;                // lines are wanted
  std::atomic<bool> failed{false};  // a call of ours has: ncclGetLastError has its text

  std::mutex mutex;            // of what follows
  std::set<std::string> told;  // which ways of which calls
  /// By NCCL's handle of ncclCommRegister: one for the same memory again, which NCCL counts.
  struct Registered {
    std::shared_ptr<peers::WindowMemory> memory;
    int times;
  };
  std::map<void*, Registered> registered;
  /// Of ncclCommWindowRegister; memory: null where Lanecast has no window there.
  struct NcclWindow {
    const char* begin;
    std::size_t bytes;
    bool symmetric;
    std::shared_ptr<peers::WindowMemory> memory;
  };
  /// By collective, elements and type: does Lanecast's own choice take NCCL? So often it has been asked.
  struct Preference {
    int asked = 0;
    bool is_nccl = false;
    bool is_tried = false;  // only a trial in the job can tell
  };
  std::map<std::tuple<lanecastCollective_t, std::size_t, int>, Preference> preferences;
  std::map<void*, NcclWindow> nccls_windows;
  std::atomic<bool> has_symmetric{false};
};

/// By NCCL's handle. One of a process, since NCCL's functions have no other place to keep it.
class AllBeside {
 public:
  static AllBeside& of_process();

  /// Null for one that was made before this library was asked, or in a process that was forked.
  std::shared_ptr<BesideNccl> find(NcclComm comm);
  void put(NcclComm comm, std::shared_ptr<BesideNccl> beside);
  std::shared_ptr<BesideNccl> take(NcclComm comm);

 private:
  AllBeside();

  std::mutex mutex_;
  std::map<NcclComm, std::shared_ptr<BesideNccl>> all_;
  std::atomic<bool> forked_{false};
};

}  // namespace lanecast::preload
