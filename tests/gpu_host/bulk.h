// SPDX-License-Identifier: Apache-2.0
// What a block has told the copy engine of its multiprocessor, and the marks by which that answers: who has come, and
// what has yet to move. Stores are made as late as an engine may make them, when no more may be under way, and loads
// at once or when they are awaited. By who asks, so that a sanitizer sees it.
#pragma once

#include <cstdint>
#include <cstring>

namespace gpu_host {

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::uint32_t bytes = 0;
  void run() const { std::memcpy(to, from, bytes); }
};

// Marks, by where they lie. `bytes`: of loads that will be told.
void prepare_mark(const void* mark, unsigned threads);
void come_to(const void* mark, std::uint32_t bytes);
void come_to_as_warp(const void* mark);
/// Shall it be made at once, and loaded() told?
bool load(const void* mark, const Copy& copy);
void loaded(const void* mark);
/// Is it passed for the time with this parity?
bool passed(const void* mark, unsigned parity);
/// The next load to be made now that all have come; false when there is none.
bool next_load(const void* mark, unsigned parity, Copy* copy);

// Stores of the calling thread.
void store(const Copy& copy);
void end_group();
/// The next store of all groups but the last few; false when there is none.
bool next_store(unsigned groups_under_way, Copy* copy);

}  // namespace gpu_host
