// SPDX-License-Identifier: Apache-2.0
// How a group begins, splits and ends.
#include <gil.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backend.h"
#include "finisher.h"
#include "process_end.h"
#include "watcher.h"

namespace lanecast_torch {
namespace {

// For calls that nobody has waited for when a group is dropped or the process ends.
constexpr auto kGrace = std::chrono::milliseconds(5000);

/// The backends of this process.
struct Live {
  std::mutex mutex;
  std::set<Backend*> backends;

  static Live& instance() {
    static auto* const live = new Live;  // outlives all of them
    return *live;
  }
};

}  // namespace

Backend::Backend(Group group, std::unique_ptr<Engine> engine, c10::intrusive_ptr<Options> options, Helpers helpers)
    : c10d::Backend(group.rank, group.size),
      engine_(std::move(engine)),
      options_(std::move(options)),
      store_(std::move(group.store)),
      helpers_(std::move(helpers)) {
  init();
  Live& live = Live::instance();
  const std::lock_guard lock(live.mutex);
  live.backends.insert(this);
}

Backend::~Backend() {
  const lanecast::WithoutGil unlocked;
  {
    Live& live = Live::instance();
    const std::lock_guard lock(live.mutex);
    live.backends.erase(this);
  }
  for (const auto& engine : engines()) engine->close(kGrace);
}

void Backend::shut_down_all() {
  const lanecast::WithoutGil unlocked;
  ProcessEnd::begin();
  Live& live = Live::instance();
  const std::lock_guard lock(live.mutex);
  const auto begin = std::chrono::steady_clock::now();
  for (Backend* backend : live.backends) {
    for (const auto& engine : backend->engines()) {
      const auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      engine->close(std::max(kGrace - gone, std::chrono::milliseconds(0)));
    }
  }
  // A thread that wants Python's lock after Python has ended would end the process.
  Finisher::instance().drain(kGrace);
  Watcher::instance().drain(kGrace);
  for (Backend* backend : live.backends) backend->watch_->drop_hook();
  ProcessEnd::calls_have_ended();
}

BackendPtr Backend::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  const int lowest = ranks.empty() ? -1 : *std::min_element(ranks.begin(), ranks.end());
  const int rank = static_cast<int>(mine - ranks.begin());
  const lanecast::WithoutGil unlocked;
  auto engine = engine_->split(mine == ranks.end() ? -1 : lowest, rank);
  if (!engine) return nullptr;
  const auto options = options_of_child(opts);
  options->take_part(getSize(), ranks);
  engine->set_timeout(options->timeout);
  const Group group{store, rank, static_cast<int>(ranks.size())};
  return c10::make_intrusive<Backend>(group, std::move(engine), options, helpers_);
}

BackendPtr Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                          const c10::intrusive_ptr<c10d::Backend::Options>& opts, const int& rank, const int& size) {
  const auto options = options_of_child(opts);
  // That of this group, and others come.
  options->topology.clear();
  options->job_size = 0;
  options->job_ranks.clear();
  const lanecast::WithoutGil unlocked;
  auto engine = std::make_unique<Engine>(StoreBootstrap(store, rank, size, options->timeout), rank, size, *options);
  return c10::make_intrusive<Backend>(Group{store, rank, size}, std::move(engine), options, helpers_);
}

c10::intrusive_ptr<Options> Backend::options_of_child(const c10::intrusive_ptr<c10d::Backend::Options>& opts) const {
  auto options = c10::make_intrusive<Options>(*options_);
  if (opts) {
    options->timeout = opts->timeout;
    options->group_name = opts->group_name;
    options->group_desc = opts->group_desc;
    options->global_ranks_in_group = opts->global_ranks_in_group;
  }
  return options;
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  for (const auto& engine : engines()) engine->set_timeout(timeout);
}

void Backend::eagerConnectSingleDevice(at::Device device) {
  const lanecast::WithoutGil unlocked;
  if (device.is_cuda()) engine_->open(device);
}

void Backend::abort() {
  const lanecast::WithoutGil unlocked;
  engine_->abort("the process group was aborted");
  for (const auto& pair : pairs_.end("aborted")) pair->abort("the process group was aborted");
  for (const BackendPtr& other : understudies_.end("aborted")) other->abort();
}

void Backend::shutdown() {
  const lanecast::WithoutGil unlocked;
  pairs_.end("shut down");
  for (const auto& engine : engines()) engine->close_hearing_signals(options_->timeout);
  watch_->drop_hook();
  drop_pool();
  for (const BackendPtr& other : understudies_.end("shut down")) other->shutdown();
}

}  // namespace lanecast_torch
