// SPDX-License-Identifier: Apache-2.0
#include "peers/shared_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "base/agreed.h"
#include "base/error.h"
#include "base/running_time.h"

namespace lanecast::peers {
namespace {

/// Of this process, whose ids mean the same in all processes of it; 0: unknown.
std::uint64_t namespace_of_processes() {
  struct stat found{};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

/// What members tell each other.
struct MemoryIntroduction {
  gpu::IpcHandle handle{};
  std::size_t bytes = 0;
  Process process;
  std::uint64_t processes = namespace_of_processes();
};

/// A member as this process sees it; none that it cannot see. One that it does not find may have ended by now.
std::optional<Process> seen(const MemoryIntroduction& member, const MemoryIntroduction& mine) {
  const bool is_visible = mine.processes != 0 && member.processes == mine.processes;
  return is_visible || !member.process.has_ended() ? std::optional(member.process) : std::nullopt;
}

/// Throws on all members alike, since all see the same.
void refuse_unequal(const std::vector<MemoryIntroduction>& all, const Bootstrap& members) {
  for (int q = 1; q < members.size; ++q) {
    if (all[q].bytes != all[0].bytes)
      throw UsageError("peer memory: " + members.name_of(0) + " wants " + std::to_string(all[0].bytes) + " bytes, " +
                       members.name_of(q) + " " + std::to_string(all[q].bytes) + "; all have to be equal");
    for (int p = 0; p < q; ++p)
      if (all[p].process.id() == all[q].process.id())
        throw UsageError("peer memory: " + members.name_of(p) + " and " + members.name_of(q) +
                         " are threads of one process; start a process for each GPU");
  }
}

constexpr std::size_t whole_words(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// A device that is short of memory is no fault: whoever frees some may ask again.
std::unique_ptr<LentMemory> lent(const std::shared_ptr<gpu::Device>& device, std::size_t bytes,
                                 const Bootstrap& members) {
  try {
    return std::make_unique<LentMemory>(device, bytes, members.rank, members.size);
  } catch (const Error& error) {
    throw UsageError("peer memory: " + members.name_of(members.rank) + " finds no " + std::to_string(bytes) +
                     " bytes on its GPU: " + error.what());
  }
}

}  // namespace

SharedMemory::SharedMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members, std::size_t bytes,
                           std::uint64_t ordinal)
    : device_(std::move(device)), rank_(members.rank), ordinal_(ordinal) {
  LentMemory::free_what_is_back();
  own_ = agreed(members, [&] { return lent(device_, whole_words(bytes), members); });
  const MemoryIntroduction mine{.handle = own_->handle(), .bytes = own_->bytes(), .process = Process(getpid())};
  std::vector<MemoryIntroduction> all(members.size);
  members.all_gather(&mine, all.data(), sizeof mine);
  refuse_unequal(all, members);
  std::vector<std::optional<Process>> processes;
  processes.reserve(all.size());
  for (const MemoryIntroduction& member : all) processes.push_back(seen(member, mine));
  own_->lend(std::move(processes));
  bool lent_out = true;
  const auto map = [&] {
    for (int q = 0; q < members.size; ++q)
      bases_.push_back(q == rank_ ? own_->address() : opened_.emplace_back(device_, all[q].handle).address());
    return true;
  };
  const auto let_go = [&] {
    opened_.clear();
    members.barrier();
    lent_out = false;
  };
  try {
    agreed(members, map, let_go);  // and nobody writes before all have mapped
  } catch (...) {
    // A member has been lost, and others may not have let go yet.
    if (lent_out) LentMemory::leave(std::move(own_));
    throw;
  }
}

void SharedMemory::say_goodbye() {
  for (int q = 0; q < size(); ++q)
    if (q != rank_) own_->give_back(of(q));
}

SharedMemory::~SharedMemory() {
  const gpu::Device::Current current(*device_);
  try {
    device_->check(device_->driver().cuCtxSynchronize(), "cuCtxSynchronize");  // kernels may be at work there
    say_goodbye();
    opened_.clear();
    Countdown left(kGoodbye);
    while (!own_->is_back()) {
      if (left.over()) {
        LentMemory::leave(std::move(own_));
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  } catch (const std::exception& error) {  // the device is out of order: nothing to give back
    std::fprintf(stderr, "lanecast: peer memory is not freed: %s\n", error.what());
  }
}

}  // namespace lanecast::peers
