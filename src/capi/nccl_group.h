// SPDX-License-Identifier: Apache-2.0
// Messages of a thread between ncclGroupStart and ncclGroupEnd: those of a communicator and a stream move together.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "capi/nccl_errors.h"
#include "capi/nccl_names.h"

namespace lanecast::capi {

class NcclGroup {
 public:
  bool is_open() const { return depth_ > 0; }
  bool is_outermost() const { return depth_ == 1; }
  void start() { ++depth_; }
  /// True where it was the outermost one.
  bool end() { return --depth_ == 0; }

  void add(const lanecastMessage_t& message, lanecastComm_t comm, void* stream) {
    const auto is_its = [&](const StreamMessages& batch) { return batch.comm == comm && batch.stream == stream; };
    auto batch = std::ranges::find_if(batches_, is_its);
    if (batch == batches_.end()) batch = batches_.insert(batch, {comm, stream, {}});
    batch->messages.push_back(message);
  }

  /// They move on stream_for(communicator, the stream that was asked for).
  template <class StreamFor>
  void change_streams(const StreamFor& stream_for) {
    for (StreamMessages& batch : batches_) batch.stream = stream_for(batch.comm, batch.stream);
  }

  /// Of a communicator that goes: its messages go with it, and the end of the group says so.
  void forget(lanecastComm_t comm) {
    has_lost_ |= std::erase_if(batches_, [&](const StreamMessages& batch) { return batch.comm == comm; }) > 0;
  }

  /// The first error: the others move all the same, since their peers wait for them.
  ncclResult_t move() {
    ncclResult_t first = ncclSuccess;
    if (std::exchange(has_lost_, false))
      first = refused(nullptr, ncclInvalidUsage,
                      "ncclGroupEnd: a communicator ended within the group, and its messages have not moved");
    for (const StreamMessages& batch : std::exchange(batches_, {})) {
      const ncclResult_t result =
          nccl_result(lanecastEnqueueBatch(batch.messages.data(), batch.messages.size(), -1, batch.stream, batch.comm));
      if (first == ncclSuccess) first = result;
    }
    return first;
  }

 private:
  struct StreamMessages {
    lanecastComm_t comm;
    void* stream;
    std::vector<lanecastMessage_t> messages;
  };

  int depth_ = 0;
  bool has_lost_ = false;
  std::vector<StreamMessages> batches_;
};

/// Where a message of no elements lies.
inline constexpr char kNowhere = 0;

inline lanecastMessage_t nccl_send(const void* from, std::size_t count, int type, int peer) {
  return {from || count ? from : &kNowhere, nullptr, count, type_from_nccl(type), peer, 0};
}

inline lanecastMessage_t nccl_receive(void* into, std::size_t count, int type, int peer) {
  return {nullptr, into || count ? into : const_cast<char*>(&kNowhere), count, type_from_nccl(type), peer, 0};
}

}  // namespace lanecast::capi
