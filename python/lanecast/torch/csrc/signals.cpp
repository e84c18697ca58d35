// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

#include <base/quiet_thread.h>
#include <gil.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace lanecast_torch {
namespace {

// Of each thread: a call of the core that a handler's exception has ended is still to return to its caller here.
thread_local std::exception_ptr kept;
thread_local int handlers = 0;  // a handler may wait as well, and another one run meanwhile

}  // namespace

void Signals::hear() {
  const lanecast::WithGil gil;
  const struct Handler {
    Handler() { ++handlers; }
    ~Handler() { --handlers; }
  } handler;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

void Signals::Ear::hear() {
  const auto now = std::chrono::steady_clock::now();
  if (now - heard_ < kBetweenSignals) return;
  heard_ = now;
  Signals::hear();
}

int Signals::hear_for_core(lanecastError_t* why, void*) noexcept {
  try {
    hear();
    return 0;
  } catch (...) {
    const std::string words = keep();
    why->text[words.copy(why->text, sizeof why->text - 1)] = '\0';
    return 1;
  }
}

std::string Signals::keep() {
  kept = std::current_exception();
  std::string words = "a signal's handler raised an exception";
  try {
    throw;
  } catch (const pybind11::error_already_set& error) {
    const lanecast::WithGil gil;
    try {
      words = "a signal's handler raised " + std::string(pybind11::str(error.type().attr("__name__")));
      const std::string text = pybind11::str(error.value());
      if (!text.empty()) words += ": " + text;
    } catch (const pybind11::error_already_set&) {  // it has no words
    }
  } catch (...) {
  }
  return words;
}

void Signals::rethrow_kept() {
  if (kept) std::rethrow_exception(std::exchange(kept, nullptr));
}

bool Signals::in_handler() { return handlers > 0; }

void run_hearing_signals(std::function<void()> job) {
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(job));
  std::future<void> done = task->get_future();
  std::thread thread = lanecast::quiet_thread([task = std::move(task)] { (*task)(); });
  try {
    while (done.wait_for(kBetweenSignals) != std::future_status::ready) Signals::hear();
  } catch (...) {
    thread.detach();
    throw;
  }
  thread.join();
  done.get();
}

}  // namespace lanecast_torch
