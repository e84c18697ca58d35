// SPDX-License-Identifier: Apache-2.0
// Python's lock, given up where this thread has it: what is waited for may want it.
#pragma once

#include <Python.h>

namespace lanecast_torch {

class WithoutPython {
 public:
  WithoutPython() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutPython() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace lanecast_torch
