// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <mutex>

namespace lanecast_torch {

/// The T of this process, made when it is first asked for. Never destroyed: its threads run until the process ends.
/// They do not come along into a forked one, which has a T of its own.
template <class T>
T& of_this_process() {
  static T* instance = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    instance = new T;
    pthread_atfork(nullptr, nullptr, [] { instance = new T; });
  });
  return *instance;
}

}  // namespace lanecast_torch
