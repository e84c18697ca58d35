// SPDX-License-Identifier: Apache-2.0
// Streams, events, modules and launches of a driver without a GPU. A handle of null is the default stream.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "driver_state.h"
#include "kernels.h"
#include "patience.h"

namespace gpu_host {
namespace {

char* at(std::uint64_t address) { return reinterpret_cast<char*>(address); }

/// In the layout of cuda.h.
struct LaunchConfig {
  struct alignas(8) Attribute {
    int which, unused;
    unsigned cluster[3], rest[13];
  };
  unsigned grid[3], block[3], shared_bytes;
  Queue* stream;
  const Attribute* attributes;
  unsigned count;
};

/// All streams take turns in one hardware queue, as on a GPU with this setting.
bool one_queue() {
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::strcmp(connections, "1") == 0;
}

/// Zeros instead of many bytes, whose pages come back when they are touched: most never are. Only files have that.
bool drop(char* data, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  if (bytes < 64 * kPage) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + bytes;
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
  if (madvise(data + (first - begin), last - first, MADV_REMOVE) != 0) return false;
  std::memset(data, 0, first - begin);
  std::memset(data + (last - begin), 0, end - last);
  return true;
}

template <class Word>
int write_value(Queue* stream, std::uint64_t address, Word value) {
  return enqueue(stream, [=] { std::atomic_ref(*reinterpret_cast<Word*>(address)).store(value); });
}

template <class Word>
int wait_value(Queue* stream, std::uint64_t address, Word value, unsigned flags) {
  return enqueue(stream, [=] {
    const std::atomic_ref word(*reinterpret_cast<Word*>(address));
    const auto come = [&](Word now) { return flags == 0 ? std::make_signed_t<Word>(now - value) >= 0 : now == value; };
    for (Patience patience; !come(word.load());) patience.wait();
  });
}

}  // namespace

Queue* queue_of(Queue* stream) {
  if (stream != nullptr) return stream;
  Device* const device = current();
  if (device == nullptr) return nullptr;
  const std::lock_guard lock(state().mutex);
  if (!device->default_stream) device->default_stream = std::make_unique<Queue>();
  return device->default_stream.get();
}

int enqueue(Queue* stream, std::function<void()> task) {
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  if (queue->captured_by != nullptr) return add_to(*queue->captured_by, std::move(task)), kOk;
  ++state().under_way;
  queue->push([task = std::move(task)] {
    task();
    --state().under_way;
  });
  return kOk;
}

extern "C" {

/// Is 0 where the device has nothing to do.
int gpu_host_under_way() { return state().under_way; }

int cuStreamCreateWithPriority(Queue** stream, unsigned, int) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuStreamCreateWithPriority")) return result;
  if (current() == nullptr) return kInvalidContext;
  *stream = one_queue() ? queue_of(nullptr) : new Queue;
  ++state().streams;
  const std::lock_guard lock(state().mutex);
  if (!one_queue()) current()->streams.insert(*stream);
  return kOk;
}
int cuStreamDestroy_v2(Queue* stream) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  {
    const std::lock_guard lock(state().mutex);
    for (Device& device : state().devices) device.streams.erase(stream);
  }
  if (!one_queue()) delete stream;
  --state().streams;
  return kOk;
}
int cuStreamSynchronize(Queue* stream) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuStreamSynchronize")) return result;
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  queue->drain();
  return a_launch_has_failed() ? static_cast<int>(kLaunchFailed) : static_cast<int>(kOk);
}
int cuStreamQuery(Queue* stream) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  return queue->idle() ? kOk : static_cast<int>(kNotReady);
}
int cuStreamIsCapturing(Queue* stream, int* status) {
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  return *status = queue->captured_by != nullptr ? 1 : state().capturing.load(), kOk;
}
int cuStreamGetCtx(Queue*, Device** context) { return (*context = current()) ? kOk : kInvalidContext; }

using Event = std::shared_ptr<Mark>;
int cuEventCreate(Event** event, unsigned) {
  if (const int result = arranged("cuEventCreate")) return result;
  if (current() == nullptr) return kInvalidContext;
  *event = new Event(std::make_shared<Mark>());
  ++state().events;
  return kOk;
}
int cuEventDestroy_v2(Event* event) {
  delete event;  // those who wait for it keep the mark
  --state().events;
  return kOk;
}
int cuEventRecord(Event* event, Queue* stream) {
  Queue* const queue = queue_of(stream);
  (*event)->captured_by = queue == nullptr ? nullptr : queue->captured_by;
  const long record = (*event)->record();
  return enqueue(stream, [mark = *event, record] { mark->reach(record); });
}
int cuEventElapsedTime(float* ms, Event* before, Event* after) {
  return *ms = static_cast<float>(((*after)->at_us() - (*before)->at_us()) * 1e-3), kOk;
}
/// What kernels and NCCL's collectives take from now on, by the clock of events.
void gpu_host_costs(double kernel_us, double nccl_us) {
  state().kernel_us = kernel_us;
  state().nccl_us = nccl_us;
}
int cuStreamWaitEvent(Queue* stream, Event* event, unsigned) {
  const long record = (*event)->latest();
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  if (queue->captured_by != nullptr || (*event)->captured_by != nullptr) return join(*queue, (*event)->captured_by);
  return enqueue(stream, [mark = *event, record] { mark->wait(record); });
}
int cuEventQuery(Event* event) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  return (*event)->reached((*event)->latest()) ? kOk : static_cast<int>(kNotReady);
}
int cuEventSynchronize(Event* event) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  (*event)->wait((*event)->latest());
  return kOk;
}

int cuStreamWriteValue32_v2(Queue* s, std::uint64_t at, std::uint32_t value, unsigned) {
  return write_value(s, at, value);
}
int cuStreamWriteValue64_v2(Queue* s, std::uint64_t at, std::uint64_t value, unsigned) {
  return write_value(s, at, value);
}
int cuStreamWaitValue32_v2(Queue* s, std::uint64_t at, std::uint32_t value, unsigned flags) {
  return wait_value(s, at, value, flags);
}
int cuStreamWaitValue64_v2(Queue* s, std::uint64_t at, std::uint64_t value, unsigned flags) {
  return wait_value(s, at, value, flags);
}

int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, Queue* stream) {
  if (const int result = arranged("cuMemsetD8Async")) return result;
  return enqueue(stream, [=] {
    if (value != 0 || !drop(at(to), bytes)) std::memset(at(to), value, bytes);
  });
}
int cuMemsetD32Async(std::uint64_t to, unsigned value, std::size_t words, Queue* stream) {
  return enqueue(stream, [=] { std::fill_n(reinterpret_cast<unsigned*>(to), words, value); });
}
int cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, Queue* stream) {
  return enqueue(stream, [=] { std::memmove(at(to), at(from), bytes); });
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, Queue* stream) {
  return enqueue(stream, [=] { std::memcpy(at(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, Queue* stream) {
  return enqueue(stream, [=] { std::memcpy(to, at(from), bytes); });
}

int cuLaunchHostFunc(Queue* stream, void (*function)(void*), void* data) {
  return enqueue(stream, [=] { function(data); });
}

struct Module {
  std::map<std::string, std::unique_ptr<std::string>> functions;  // which are known by their names
};
int cuModuleLoadData(Module** module, const void* image) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuModuleLoadData")) return result;
  if (current() == nullptr) return kInvalidContext;
  const char* const code = static_cast<const char*>(image);
  if (std::memcmp(code, "\177ELF", 4) != 0 && std::strstr(code, ".entry ") == nullptr) return kInvalidValue;
  *module = new Module;
  ++state().modules;
  return kOk;
}
int cuModuleUnload(Module* module) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  delete module;
  --state().modules;
  return kOk;
}
int cuModuleGetFunction(std::string** function, Module* module, const char* name) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuModuleGetFunction")) return result;
  auto& known = module->functions[name];
  if (!known) known = std::make_unique<std::string>(name);
  *function = known.get();
  return kOk;
}
int cuLaunchKernel(std::string* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned, unsigned,
                   unsigned, Queue* stream, void** arguments, void**) {
  if (const int result = arranged("cuLaunchKernel")) return result;
  if (grid_x == 0 || block_x == 0 || block_x > 1024) return kInvalidValue;
  auto body = kernel(*function, arguments[0]);
  if (!body) return kNotFound;
  return enqueue(stream, [shape = Shape{{grid_x, 1, 1}, {block_x, 1, 1}}, body] {
    run_grid(shape, body);
    clock_us += state().kernel_us;
  });
}
/// Of clusters of blocks, which are all that is asked for so.
int cuLaunchKernelEx(const LaunchConfig* how, std::string* function, void** arguments, void** extra) {
  constexpr int kClusterDimension = 4;
  if (how->count != 1 || how->attributes->which != kClusterDimension) return kInvalidValue;
  if (how->grid[0] % how->attributes->cluster[0] != 0) return kInvalidValue;
  return cuLaunchKernel(function, how->grid[0], 1, 1, how->block[0], 1, 1, how->shared_bytes, how->stream, arguments,
                        extra);
}

int cuCtxSynchronize() {
  if (spoils_a_capture(/*whatever_mode=*/true)) return kCaptureUnsupported;
  Queue* const queue = queue_of(nullptr);
  if (queue == nullptr) return kInvalidContext;
  queue->drain();
  std::vector<std::shared_ptr<Mark>> ends;
  {
    const std::lock_guard lock(state().mutex);  // none of them is destroyed meanwhile
    for (Queue* const stream : current()->streams) {
      const std::shared_ptr<Mark>& end = ends.emplace_back(std::make_shared<Mark>());
      stream->push([end, record = end->record()] { end->reach(record); }, /*at_once=*/true);
    }
  }
  for (const std::shared_ptr<Mark>& end : ends) end->wait(end->latest());
  return kOk;
}

}  // extern "C"

}  // namespace gpu_host
