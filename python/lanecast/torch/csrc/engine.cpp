// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "errors.h"
#include "of_this_process.h"
#include "process_end.h"
#include "signals.h"

namespace lanecast_torch {
namespace {

constexpr std::chrono::microseconds kLongestPause{1000};
constexpr int kBesideComputation = 32;  // of a GPU's multiprocessors, where the program does not say: decision 0043

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// 0: the library reads the environment, or takes as many as serve its own speed.
int max_ctas(const Options& options) {
  if (options.max_ctas != 0) return options.max_ctas;
  const char* const set = std::getenv("LANECAST_MAX_CTAS");
  return set && *set ? 0 : kBesideComputation;
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

lanecastConfig_t config_from(const Options& options, lanecastError_t& error) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.topology = or_null(options.topology);
  config.transports = or_null(options.transports);
  config.algorithm = or_null(options.algorithm);
  config.chunks = options.chunks;
  config.timeout_s = seconds(options.timeout);
  config.error = &error;
  config.reproducible = options.reproducible;
  config.check_calls = options.check_calls;
  config.trace_dir = or_null(options.trace_dir);
  config.mpi = options.mpi;
  config.allow_shared_gpu = options.allow_shared_gpu;
  config.max_ctas = max_ctas(options);
  config.kernel_cache = or_null(options.kernel_cache);
  config.gpu_libraries = or_null(options.gpu_libraries);
  config.profile = or_null(options.profile);
  config.processes_per_gpu = options.processes_per_gpu;
  config.allow_shared_cores = options.allow_shared_cores;
  config.python = or_null(options.python);
  config.interrupt = &Signals::hear_for_core;
  config.job_size = options.job_size;
  config.job_ranks = options.job_ranks.empty() ? nullptr : options.job_ranks.data();
  config.job_options = options.job_options;
  return config;
}

/// Of all groups of a process: a mesh has many that are alike.
struct Said {
  std::mutex mutex;
  std::set<std::string> lines;
};

void say_once(const std::string& text) {
  Said& said = of_this_process<Said>();
  const std::lock_guard lock(said.mutex);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (said.lines.insert(line).second) TORCH_WARN("lanecast: left aside: ", line);
}

}  // namespace

Engine::Engine(StoreBootstrap bootstrap, int rank, int size, const Options& options)
    : whose_ranks_(options.whose_ranks), timeout_(options.timeout) {
  lanecastError_t error{};
  lanecastError_t left_aside{};
  lanecastConfig_t config = config_from(options, error);
  config.left_aside = &left_aside;
  const lanecastResult_t result =
      lanecastCommInitAllGather(&comm_, rank, size, &StoreBootstrap::all_gather, &bootstrap, &config);
  check(result, (bootstrap.failure().empty() ? error.text : bootstrap.failure()) + whose_ranks_);
  bootstrap.leave();
  say_once(left_aside.text);
}

Engine::~Engine() { close(std::chrono::milliseconds(0)); }

std::unique_ptr<Engine> Engine::split(int color, int key) {
  const Entry entry(*this);
  set_core_timeout(c10d::kUnsetTimeout);
  lanecastComm_t child = nullptr;
  check_core(lanecastCommSplit(comm_, color, key, &child));
  return child ? std::unique_ptr<Engine>(new Engine(child, timeout_)) : nullptr;
}

lanecastResult_t Engine::UnderWay::note(lanecastResult_t result) {
  auto none = lanecastSuccess;
  if (result != lanecastUsageError) failure.compare_exchange_strong(none, result);
  return result;
}

void Engine::check_core(lanecastResult_t result) const { check(under_way_->note(result), last_error()); }

std::string Engine::last_error() const { return lanecastGetLastError(comm_) + whose_ranks_; }

void Engine::set_core_timeout(std::chrono::milliseconds timeout) {
  if (timeout == c10d::kUnsetTimeout) timeout = timeout_;
  if (timeout == core_timeout_) return;
  check_core(lanecastCommSetTimeout(comm_, seconds(timeout)));
  core_timeout_ = timeout;
}

template <class Start>
void Engine::start_with(HostWork& work, std::chrono::milliseconds timeout, const Start& start) {
  const Entry entry(*this);
  start_locked(work, timeout, start);
}

template <class Start>
void Engine::start_locked(HostWork& work, std::chrono::milliseconds timeout, const Start& start) {
  set_core_timeout(timeout);
  lanecastWork_t started = nullptr;
  check_core(start(&started));
  {
    const std::lock_guard counting(under_way_->mutex);
    ++under_way_->calls;
  }
  work.add(started, weak_from_this(), [started, under_way = under_way_](lanecastResult_t result) {
    under_way->note(result);
    const std::lock_guard counting(under_way->mutex);
    --under_way->calls;
    under_way->abandoned.erase(started);
    under_way->changed.notify_all();
  });
}

template <class Run>
void Engine::run_with(std::chrono::milliseconds timeout, const Run& run) {
  const Blocks blocks;
  double timeout_s = 0;
  {
    const Entry entry(*this);
    timeout_s = seconds(timeout == c10d::kUnsetTimeout ? timeout_ : timeout);
    const std::lock_guard counting(under_way_->mutex);
    ++under_way_->calls;
    under_way_->blocking.push_back(std::this_thread::get_id());
  }
  lanecastError_t error{};
  const lanecastResult_t result = run(timeout_s, &error);
  {
    const std::lock_guard counting(under_way_->mutex);
    --under_way_->calls;
    auto& blocking = under_way_->blocking;
    blocking.erase(std::find(blocking.begin(), blocking.end(), std::this_thread::get_id()));
    under_way_->changed.notify_all();
  }
  check(under_way_->note(result), error.text);
}

void Engine::run(const lanecastCall_t& call, std::chrono::milliseconds timeout) {
  run_with(timeout, [&](double timeout_s, lanecastError_t* error) {
    return lanecastRunBesideOthers(&call, timeout_s, comm_, error);
  });
}

void Engine::run_barrier(std::chrono::milliseconds timeout) {
  run_with(timeout, [&](double timeout_s, lanecastError_t* error) {
    return lanecastBarrierBesideOthers(timeout_s, comm_, error);
  });
}

void Engine::start(HostWork& work, const lanecastCall_t& call, std::chrono::milliseconds timeout) {
  start_with(work, timeout, [&](lanecastWork_t* started) { return lanecastStart(&call, comm_, started); });
}

void Engine::start_messages(HostWork& work, const std::vector<lanecastMessage_t>& messages) {
  start_with(work, c10d::kUnsetTimeout, [&](lanecastWork_t* started) {
    return lanecastBatchStart(messages.data(), messages.size(), comm_, started);
  });
}

void Engine::receive_from_any(HostWork& work, lanecastMessage_t message, std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  for (auto pause = std::chrono::microseconds(10);; pause = std::min(2 * pause, kLongestPause)) {
    if (start_if_arrived(work, message)) return;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= timeout)
      check(lanecastTimeoutError, "no rank has sent a message with tag " + std::to_string(message.tag) + " in " +
                                      std::to_string(seconds(timeout)) + " s, for a receive from any");
    std::this_thread::sleep_for(pause);
  }
}

bool Engine::start_if_arrived(HostWork& work, lanecastMessage_t message) {
  const Entry entry(*this);  // also from seeing a message until its receive is posted
  int size = 0, rank = 0;
  lanecastCommCount(comm_, &size);
  lanecastCommUserRank(comm_, &rank);
  for (message.peer = 0; message.peer < size; ++message.peer) {
    int arrived = 0;
    if (message.peer != rank) check_core(lanecastProbe(message.peer, message.tag, comm_, &arrived));
    if (!arrived) continue;
    work.received_from(message.peer);
    start_locked(work, timeout_,
                 [&](lanecastWork_t* started) { return lanecastBatchStart(&message, 1, comm_, started); });
    return true;
  }
  return false;
}

void Engine::start_barrier(HostWork& work, std::chrono::milliseconds timeout) {
  start_with(work, timeout, [&](lanecastWork_t* started) { return lanecastBarrierStart(comm_, started); });
}

void Engine::set_timeout(std::chrono::milliseconds timeout) {
  const Lock lock(*this);
  timeout_ = timeout;
}

std::string Engine::waits_for(lanecastWork_t started) {
  const std::unique_lock lock(mutex_, kBetweenSignals);
  std::array<char, sizeof(lanecastError_t::text)> text{};
  if (lock && comm_) lanecastWaitsFor(started, comm_, text.data(), text.size());
  return text.data();
}

lanecastResult_t Engine::failure() {
  device_error();  // notes it
  return under_way_->failure;
}

}  // namespace lanecast_torch
