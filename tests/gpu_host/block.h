// SPDX-License-Identifier: Apache-2.0
// A kernel's block on the CPU: its threads take turns on one thread of the host, in an order that changes from turn to
// turn, so that a barrier that is missing shows. Blocks run beside each other for real.
#pragma once

#include <functional>

namespace gpu_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Shape {
  Index grid, block;
};

// What a kernel asks for, as the calling thread of its block sees it.
extern thread_local Index thread_index, block_index, block_dim, grid_dim;

/// Runs body() as each thread of each block; returns when all have ended.
void run_grid(const Shape& shape, const std::function<void()>& body);

/// Comes back when `threads` threads of the block have called it with this name; 0: all that have not ended.
void wait_at_barrier(int name, int threads);

/// Counts for those who wait there, and goes on.
void arrive_at_barrier(int name, int threads);

/// Lets the other threads of the block go on: for those that spin.
void give_way();

/// Before a thread releases a word, and when it looks whether it goes on (no word): for tests that put threads out of
/// step. Null: nothing.
extern void (*at_word)(const void* word);

/// The driver says from now on that a launch has failed.
void fail_launch();
bool a_launch_has_failed();

/// Nanoseconds on the block's own clock, which begins a little before 64 bits of picoseconds begin anew.
unsigned long long now_ns();

}  // namespace gpu_host
