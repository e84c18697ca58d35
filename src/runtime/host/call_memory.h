// SPDX-License-Identifier: Apache-2.0
// What a communicator's calls need beside the caller's buffers. They run one after the other, so all shapes share the
// memory of the largest, however many there are.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "base/buffer_pool.h"
#include "base/store_choice.h"

namespace lanecast {

class CallMemory {
 public:
  /// For the call that begins; the memory of the one before is no more, unless it is large enough.
  std::byte* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset();  // never both at a time
      scratch_bytes_ = 0;
      scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      scratch_bytes_ = bytes;
    }
    return scratch_.get();
  }

  BufferPool staging;
  std::map<int, StoreChoice> copies, sums;  // that are then sent to a peer, by its rank

 private:
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace lanecast
