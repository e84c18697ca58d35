// SPDX-License-Identifier: Apache-2.0
#include "bulk.h"

#include <cstdlib>
#include <deque>
#include <map>
#include <random>

#include "block.h"

#ifdef GPU_HOST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace gpu_host {
namespace {

constexpr unsigned kWarp = 32;

struct Mark {
  unsigned threads = 0, missing = 0, passed = 0;
  unsigned lanes = 0;       // of warps that have come in part
  std::uint32_t bytes = 0;  // of loads that it has yet to be told of
  std::deque<Copy> loads;
};

struct Group {
  std::deque<Copy> stores;
  bool open = true;
};

// Of a block: its threads are on one of the host.
thread_local std::map<const void*, Mark> marks;
thread_local std::map<unsigned, std::deque<Group>> groups;  // by their threads
thread_local std::minstd_rand random_number;

void expect(bool holds) {
  if (!holds) std::abort();
}

bool fits(const Copy& copy) {
  return copy.bytes != 0 && copy.bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(copy.to) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(copy.from) % 16 == 0;
}

// Who passes a mark knows what those have done who came to it.
void published([[maybe_unused]] const void* mark) {
#ifdef GPU_HOST_TSAN
  __tsan_release(const_cast<void*>(mark));
#endif
}
void acquired([[maybe_unused]] const void* mark) {
#ifdef GPU_HOST_TSAN
  __tsan_acquire(const_cast<void*>(mark));
#endif
}

std::deque<Group>& own_groups() {
  auto& own = groups[thread_index.x];
  if (own.empty() || !own.back().open) own.emplace_back();
  return own;
}

}  // namespace

void prepare_mark(const void* mark, unsigned threads) { marks[mark] = {.threads = threads, .missing = threads}; }

void come_to(const void* at, std::uint32_t bytes) {
  Mark& mark = marks.at(at);
  expect(mark.missing > 0);
  published(at);
  --mark.missing;
  mark.bytes += bytes;
}

void come_to_as_warp(const void* at) {
  Mark& mark = marks.at(at);
  published(at);
  if (++mark.lanes % kWarp == 0) come_to(at, 0);
}

bool load(const void* at, const Copy& copy) {
  Mark& mark = marks.at(at);
  expect(fits(copy) && mark.bytes >= copy.bytes);
  mark.bytes -= copy.bytes;
  if (random_number() % 2 == 0) return true;
  mark.loads.push_back(copy);
  return false;
}

void loaded(const void* at) { published(at); }

bool next_load(const void* at, unsigned parity, Copy* copy) {
  Mark& mark = marks.at(at);
  if (mark.passed % 2 != parity || mark.missing > 0 || mark.bytes > 0) return false;
  acquired(at);
  if (!mark.loads.empty()) {
    *copy = mark.loads.front();
    mark.loads.pop_front();
    return true;
  }
  published(at);  // what was loaded
  mark.missing = mark.threads;
  ++mark.passed;
  return false;
}

bool passed(const void* at, unsigned parity) {
  if (marks.at(at).passed % 2 == parity) return false;
  acquired(at);
  return true;
}

void store(const Copy& copy) {
  expect(fits(copy));
  own_groups().back().stores.push_back(copy);
}

void end_group() { own_groups().back().open = false; }

bool next_store(unsigned groups_under_way, Copy* copy) {
  auto& own = groups[thread_index.x];
  while (own.size() > groups_under_way && !own.front().open) {
    Group& group = own.front();
    if (!group.stores.empty()) {
      *copy = group.stores.front();
      group.stores.pop_front();
      return true;
    }
    own.pop_front();
  }
  return false;
}

}  // namespace gpu_host
