// SPDX-License-Identifier: Apache-2.0
// What torch's CUDA would ask of NVIDIA's driver, asked of the one that LANECAST_CUDA_LIBRARY names.
#pragma once

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>

namespace pretend {

using Context = void*;
using Stream = void*;  // null: the default stream of the current context
using Event = void*;

inline constexpr int kNotReady = 600;

class Driver {
 public:
  static Driver& instance() {
    static auto* const driver = new Driver;
    return *driver;
  }

  template <class... Arguments>
  int ask(const char* name, Arguments... arguments) const {
    const auto call = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    TORCH_CHECK(call, "the driver has no ", name);
    return call(arguments...);
  }

  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const int result = ask(name, arguments...);
    TORCH_CHECK(result == 0, name, " returned ", result);
  }

  Context context(int device) const {
    Context context = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, device);
    return context;
  }

 private:
  Driver() : library_(dlopen(std::getenv("LANECAST_CUDA_LIBRARY"), RTLD_NOW)) {
    TORCH_CHECK(library_, dlerror());
    call("cuInit", 0u);
  }

  void* library_;
};

/// Makes a device's context the current one.
class InContext {
 public:
  explicit InContext(int device) { Driver::instance().call("cuCtxPushCurrent_v2", Driver::instance().context(device)); }
  ~InContext() {
    Context context = nullptr;
    Driver::instance().ask("cuCtxPopCurrent_v2", &context);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
};

}  // namespace pretend
