// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of a program, each with a memory that the others reach.
#pragma once

#include <thread>
#include <vector>

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
