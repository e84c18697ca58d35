// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include "memory.h"

namespace pretend {
namespace {

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_stream{};
std::atomic<unsigned> next_of_pool{0};

struct Pool {
  std::array<std::array<Stream, kPool + 1>, kDevices> streams{};

  Pool() {
    for (int device = 0; device < kDevices; ++device) {
      const InContext in(device);
      for (int k = 1; k <= kPool; ++k)
        Driver::instance().call("cuStreamCreateWithPriority", &streams[device][k], 1u, 0);
    }
  }
};

c10::DeviceIndex index_of(c10::Device device) { return device.has_index() ? device.index() : current_device; }

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, index_of(device)), id);
}

}  // namespace

Stream handle_of(const c10::Stream& stream) {
  static auto* const pool = new Pool;
  return pool->streams[stream.device_index()][stream.id()];
}

void enqueue(const c10::Stream& stream, std::function<void()> task) {
  const InContext in(stream.device_index());
  const auto run = [](void* held) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(held));
    (*owned)();
  };
  Driver::instance().call<Stream, void (*)(void*), void*>("cuLaunchHostFunc", handle_of(stream), run,
                                                          new std::function<void()>(std::move(task)));
}

void synchronize(const c10::Stream& stream) {
  const InContext in(stream.device_index());
  Driver::instance().call("cuStreamSynchronize", handle_of(stream));
}

c10::Device Guard::exchangeDevice(c10::Device device) const {
  const c10::Device before = getDevice();
  if (device.has_index()) current_device = device.index();
  return before;
}

c10::Device Guard::getDevice() const { return {c10::kCUDA, current_device}; }

c10::Stream Guard::getStream(c10::Device device) const { return stream_of(device, current_stream[index_of(device)]); }

c10::Stream Guard::getDefaultStream(c10::Device device) const { return stream_of(device, 0); }

c10::Stream Guard::getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const {
  return stream_of(device, 1 + next_of_pool++ % kPool);
}

c10::Stream Guard::exchangeStream(c10::Stream stream) const {
  const c10::Stream before = getStream(stream.device());
  current_stream[stream.device_index()] = stream.id();
  return before;
}

void Guard::record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
                   const c10::EventFlag /*flag*/) const {
  const InContext in(stream.device_index());
  if (!*event) Driver::instance().call("cuEventCreate", event, 2u);
  Driver::instance().call("cuEventRecord", *event, handle_of(stream));
}

void Guard::block(void* event, const c10::Stream& stream) const {
  const InContext in(stream.device_index());
  if (event) Driver::instance().call("cuStreamWaitEvent", handle_of(stream), event, 0u);
}

bool Guard::queryEvent(void* event) const {
  return !event || Driver::instance().ask("cuEventQuery", event) != kNotReady;
}

void Guard::destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept {
  if (event) Driver::instance().ask("cuEventDestroy_v2", event);
}

void Guard::synchronizeEvent(void* event) const {
  if (event) Driver::instance().call("cuEventSynchronize", event);
}

double Guard::elapsedTime(void* first, void* second, const c10::DeviceIndex /*device*/) const {
  float ms = 0;
  Driver::instance().call("cuEventElapsedTime", &ms, first, second);
  return ms;
}

bool Guard::queryStream(const c10::Stream& stream) const {
  const InContext in(stream.device_index());
  return Driver::instance().ask("cuStreamQuery", handle_of(stream)) != kNotReady;
}

void Guard::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const {
  record_use(data, stream);
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

}  // namespace pretend
