// SPDX-License-Identifier: Apache-2.0
// Stands between the library and the driver without a GPU: counts the calls of each thread, and has a lock as CUDA's
// has, which a program holds that waits for the device, as the first launch of a kernel may, and which every other call
// waits for. The calls themselves are in a file that is made with the names.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace {

struct Watched {
  std::mutex mutex;
  std::condition_variable let_go;
  pid_t holder = 0;  // of the driver's lock
  std::map<pid_t, std::map<std::string, int>> calls;
};

/// Never destroyed: threads of streams may outlive main().
Watched& watched() {
  static Watched* const only = new Watched;
  return *only;
}

int (*under_way)();

}  // namespace

extern "C" {

extern const char* const gpu_watched_names[];
extern void* gpu_watched_real[];
extern const unsigned gpu_watched_count;

__attribute__((constructor)) void gpu_watched_open() {
  void* const driver = dlopen(GPU_HOST_PATH, RTLD_NOW | RTLD_LOCAL);
  for (unsigned k = 0; k < gpu_watched_count; ++k) gpu_watched_real[k] = dlsym(driver, gpu_watched_names[k]);
  under_way = reinterpret_cast<int (*)()>(dlsym(driver, "gpu_host_under_way"));
}

/// Before each call.
void gpu_watched_enter(unsigned call) {
  std::unique_lock lock(watched().mutex);
  ++watched().calls[gettid()][gpu_watched_names[call]];
  watched().let_go.wait(lock, [] { return watched().holder == 0 || watched().holder == gettid(); });
}

/// What a program does that loads a kernel: with the driver's lock it waits until the device has nothing to do. Whether
/// that was so before the deadline.
int gpu_watched_load(int most_ms) {
  {
    std::unique_lock lock(watched().mutex);
    watched().let_go.wait(lock, [] { return watched().holder == 0; });
    watched().holder = gettid();
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(most_ms);
  while (under_way() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool idle = under_way() == 0;
  const std::lock_guard lock(watched().mutex);
  watched().holder = 0;
  watched().let_go.notify_all();
  return idle ? 1 : 0;
}

int gpu_watched_is_held() {
  const std::lock_guard lock(watched().mutex);
  return watched().holder != 0 ? 1 : 0;
}

/// Forgets the calls so far.
void gpu_watched_reset() {
  const std::lock_guard lock(watched().mutex);
  watched().calls.clear();
}

/// A line for each thread and call: "4711 cuLaunchKernel 12".
const char* gpu_watched_calls() {
  static std::string text;
  const std::lock_guard lock(watched().mutex);
  text.clear();
  for (const auto& [thread, calls] : watched().calls)
    for (const auto& [name, count] : calls)
      text += std::to_string(thread) + " " + name + " " + std::to_string(count) + "\n";
  return text.c_str();
}

}  // extern "C"
