// SPDX-License-Identifier: Apache-2.0
// Python's lock, which a thread may also want while the interpreter ends. The adapter for torch includes this too.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace lanecast {

/// Until the process has ended.
[[noreturn]] inline void stay() {
  for (;;) pause();
}

/// Up to 3.13 Python ends a thread that wants its lock too late by pthread_exit(), which unwinds the stack: past the
/// first destructor std::terminate() would end the process, with a signal. As Python does since 3.14, such a thread
/// stays where it is until the process has ended.
template <class Take>
auto take_gil(const Take& take) noexcept {
  try {
    return take();
  } catch (...) {  // Python throws nothing: this is the unwinding, which ends here as long as nobody leaves
    stay();
  }
}

/// Whether this thread has it.
inline bool has_gil() {
#ifdef Py_LIMITED_API
  // That API lacks PyGILState_Check(). From 3.12 on, where we use it, the current thread state is each thread's own,
  // and only a thread that has one is given a dictionary; in 3.11 it would be the state of any thread that has the
  // lock.
  return PyThreadState_GetDict() != nullptr;
#else
  return PyGILState_Check() != 0;
#endif
}

/// Given up where this thread has it: what is waited for may want it.
class WithoutGil {
 public:
  WithoutGil() = default;
  ~WithoutGil() {
    if (state_) take_gil([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_ = Py_IsInitialized() && has_gil() ? PyEval_SaveThread() : nullptr;
};

/// By a thread that has it or not, also one that Python does not know; but where Python has ended, it knows none, and
/// to ask it would crash: what C has registered for the end of the process may take a while.
class WithGil {
 public:
  WithGil() = default;
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const PyGILState_STATE state_ = take_gil([] {
    if (!Py_IsInitialized() && !PyGILState_GetThisThreadState()) stay();
    return PyGILState_Ensure();
  });
};

}  // namespace lanecast
