// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/taking.h"

#include <algorithm>
#include <bit>
#include <exception>

#include "algorithms/registry.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "capi/call.h"
#include "capi/preload/telling.h"
#include "select/explain.h"

namespace lanecast::preload {
namespace {

bool reduces(const AskedOfNccl& asked) {
  return asked.collective == lanecastCollAllReduce || asked.collective == lanecastCollReduceScatter ||
         asked.collective == lanecastCollReduce;
}

bool is_whole(int type) { return type <= ncclUint64; }

bool only_root_sends(const AskedOfNccl& asked) {
  return asked.collective == lanecastCollBroadcast || asked.collective == lanecastCollScatter;
}

bool only_root_gets(const AskedOfNccl& asked) {
  return asked.collective == lanecastCollReduce || asked.collective == lanecastCollGather;
}

/// What a root alone has is not looked at: the others leave anything there, and all have to decide alike.
bool in_symmetric_windows(const AskedOfNccl& asked, BesideNccl& beside) {
  if (!beside.has_symmetric.load(std::memory_order_relaxed)) return false;  // registered by this thread, or before it
  const std::lock_guard lock(beside.mutex);
  const auto lies_in_one = [&](const void* at) {
    const auto* const byte = static_cast<const char*>(at);
    for (const auto& [handle, window] : beside.nccls_windows)
      if (window.symmetric && byte >= window.begin && byte < window.begin + window.bytes) return true;
    return false;
  };
  return (only_root_sends(asked) || lies_in_one(asked.in)) && (only_root_gets(asked) || lies_in_one(asked.out));
}

/// Where the buffers lie in windows.
bool can_copy_nothing(const AskedOfNccl& asked) {
  return asked.collective == lanecastCollAllReduce || asked.collective == lanecastCollReduceScatter ||
         asked.collective == lanecastCollAllGather;
}

Explanation explained(const AskedOfNccl& asked, const BesideNccl& beside) {
  Communicator& core = *beside.ours->core;
  return core.gpu().explain(capi::call_from(as_ours(asked, beside.rank), core), /*symmetric=*/false,
                            /*captured=*/false);
}

/// Trials of both are over by then, and the answer stays.
constexpr int kAskedAtMost = 16;

/// The choice that Lanecast would make by itself is the same on all ranks at a communicator's n-th such call. NCCL's
/// kernels then run by the program's communicator, and Lanecast needs no second one.
BesideNccl::Preference preference(const AskedOfNccl& asked, BesideNccl& beside) {
  const std::lock_guard lock(beside.mutex);
  BesideNccl::Preference& known = beside.preferences[{asked.collective, asked.count, asked.type}];
  if (known.asked >= kAskedAtMost) return known;
  ++known.asked;
  try {
    const Explanation found = explained(asked, beside);
    known.is_nccl = found.chosen.algorithm == kNccl;
    known.is_tried = found.nccl_is_tried;
  } catch (const std::exception&) {
    // What Lanecast refuses is told by the call itself.
  }
  return known;
}

/// What the choice rests on, as `lanecast tune` and the cost model have it.
std::string chosen(const AskedOfNccl& asked, const BesideNccl& beside) {
  if (asked.is_message) return "messages between two ranks";
  try {
    return explained(asked, beside).reason();
  } catch (const std::exception&) {
    return "";  // a line less: the call itself goes on
  }
}

}  // namespace

const char* left_to_nccl(const AskedOfNccl& asked, BesideNccl& beside) {
  if (asked.count == 0) return "it has no elements";
  if (asked.type < 0 || asked.type >= ncclNumTypes) return "Lanecast has no such type";
  if (reduces(asked)) {
    if (asked.op < 0 || asked.op >= ncclNumOps) return "its operator is the program's own";
    if (asked.op == ncclAvg && is_whole(asked.type)) return "Lanecast has averages of floats alone";
  }
  const BesideNccl::Preference known = preference(asked, beside);
  if (known.is_nccl) return "Lanecast's own choice takes it";
  if (!in_symmetric_windows(asked, beside)) return nullptr;
  // A trial has no window, so it cannot tell what NCCL does there by multicast.
  if (known.is_tried) return "nobody has timed NCCL's multicast in symmetric windows";
  return can_copy_nothing(asked) ? nullptr : "its buffers lie in symmetric windows, where NCCL's kernels copy nothing";
}

lanecastCall_t as_ours(const AskedOfNccl& asked, int rank) {
  const bool is_root = rank == asked.root;
  lanecastCall_t call{};
  call.collective = asked.collective;
  call.sendbuff = only_root_sends(asked) && !is_root ? nullptr : asked.in;
  call.recvbuff = only_root_gets(asked) && !is_root ? nullptr : asked.out;
  call.count = asked.count;
  call.datatype = capi::type_from_nccl(asked.type);
  call.op = reduces(asked) ? capi::op_from_nccl(asked.op) : lanecastSum;
  call.root = asked.root;
  return call;
}

void tell_way(const AskedOfNccl& asked, BesideNccl& beside, const std::string& why) {
  if (!beside.info) return;
  const std::string where = in_symmetric_windows(asked, beside) ? ", in symmetric windows" : "";
  const std::string what = std::string(asked.name) + " of " + std::to_string(asked.count) + " elements of type " +
                           std::to_string(asked.type) +
                           (reduces(asked) ? ", operator " + std::to_string(asked.op) : "") + where;
  {
    const std::lock_guard lock(beside.mutex);
    const std::string key = std::string(asked.name) + " " + std::to_string(std::bit_width(asked.count)) + " " +
                            std::to_string(asked.type) + " " + std::to_string(asked.op) + where + " " + why;
    if (!beside.told.insert(key).second) return;
  }
  tell_info("rank " + std::to_string(beside.rank) + ": " + what +
            (why.empty() ? " by Lanecast: " + chosen(asked, beside) : " by NCCL: " + why));
}

ncclResult_t told(lanecastResult_t result, BesideNccl& beside) {
  if (result == lanecastSuccess) return ncclSuccess;
  // Release: whoever asks for the text sees the flag of its own thread, or a text that was there before.
  beside.failed.store(true, std::memory_order_release);
  tell_always("rank " + std::to_string(beside.rank) + ": " + lanecastGetLastError(beside.ours));
  return capi::nccl_result(result);
}

}  // namespace lanecast::preload
