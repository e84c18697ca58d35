# SPDX-License-Identifier: Apache-2.0
"""The cache of what was bound: which values stay, where they stay, and what a hit costs."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/recently_used.h"

static int allocations = 0;
void* operator new(std::size_t bytes) { return ++allocations, std::malloc(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }

struct Fixed {  // neither copied nor moved
  Fixed(int first, int second) : sum(first + second) {}
  Fixed(const Fixed&) = delete;
  int sum;
};

int main() {
  lanecast::RecentlyUsed<int, Fixed> cache(3);
  int looked_at = 0;
  const auto find = [&](int key) {
    looked_at = 0;
    return cache.find([&](int other) { return ++looked_at, other == key; });
  };
  Fixed* const first = &cache.make(1, 10, 1);
  cache.make(2, 10, 2);
  cache.make(3, 10, 3);
  allocations = 0;
  for (int again = 0; again < 2; ++again) {
    const bool is_there = find(1) == first;
    std::printf("%d after %d, %d allocated\n", is_there, looked_at, allocations);
  }
  cache.make(4, 10, 4);  // 2 was not used for longest
  std::printf("%d %d %d %d\n", find(1) == first, find(2) == nullptr, find(3)->sum, find(4)->sum);
  cache.clear();
  std::printf("%d\n", find(1) == nullptr);
}
"""


def test_what_is_kept_and_what_a_hit_costs(tmp_path: Path) -> None:
    program = tmp_path / "program"
    command = ["g++", "-std=c++20", "-Wall", "-Werror", f"-I{SOURCE}", "-x", "c++", "-", "-o", str(program)]
    subprocess.run(command, input=PROGRAM, text=True, check=True, timeout=240)
    ended = subprocess.run([program], capture_output=True, text=True, check=True, timeout=240)
    assert ended.stdout.splitlines() == ["1 after 3, 0 allocated", "1 after 1, 0 allocated", "1 1 13 14", "1"]
