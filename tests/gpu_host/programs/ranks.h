// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of a program, each with a memory that the others reach.
#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "device/gpu/kernels/arguments.h"

/// What of(r, memory) returns on each rank, added up.
template <class Memory, class Of>
int run_ranks(unsigned ranks, Of of) {
  std::vector<Memory> memory;
  for (unsigned r = 0; r < ranks; ++r) memory.emplace_back(ranks);
  std::vector<int> found(ranks);
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < ranks; ++r) threads.emplace_back([&, r] { found[r] = of(r, memory); });
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  for (const int each : found) sum += each;
  return sum;
}

/// As a rank's host does it, without which no wait of its kernels has a deadline.
class HostClock {
 public:
  explicit HostClock(lanecast::gpu::FaultRecord& record)
      : thread_([&record](const std::stop_token& ended) {
          const auto begun = std::chrono::steady_clock::now();
          while (!ended.stop_requested()) {
            const std::chrono::nanoseconds ran = std::chrono::steady_clock::now() - begun;
            std::atomic_ref(record.ran_ns)
                .store(static_cast<lanecast::gpu::u64>(ran.count()), std::memory_order_relaxed);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}

 private:
  std::jthread thread_;
};
