// SPDX-License-Identifier: Apache-2.0
#include "store_watch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lanecast_torch {
namespace {

// A wait ends late by a quarter of its time at most, and by a few looks of all ranks a store is not kept busy.
constexpr int kPartOfWait = 4;
constexpr std::chrono::microseconds kFirstPause{100}, kLastPause{20'000}, kMorePerRank{100};

}  // namespace

StoreWatch::StoreWatch(c10::intrusive_ptr<c10d::Store> store, int ranks)
    : store_(std::move(store)), longest_pause_(kLastPause + ranks * kMorePerRank) {}

bool StoreWatch::is_set_by(Clock::time_point deadline, const std::string& key, const std::function<void()>& look) {
  const auto begin = Clock::now();
  while (!store_->check({key})) {
    TORCH_CHECK(!given_up_, "lanecast: nobody waits for the store any more");
    if (look) look();
    const auto now = Clock::now();
    if (now >= deadline) return store_->check({key});
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - begin);
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - now);
    std::this_thread::sleep_for(
        std::min(left + kFirstPause, std::clamp(waited / kPartOfWait, kFirstPause, longest_pause_)));
  }
  return true;
}

}  // namespace lanecast_torch
