// SPDX-License-Identifier: Apache-2.0
// What tests ask of the device that is none.
#include <torch/csrc/utils/pybind.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "memory_pool.h"
#include "streams.h"

namespace py = pybind11;

namespace pretend {
namespace {

c10::Stream current() { return Guard().getStream(Guard().getDevice()); }

/// Where streams wait for the host.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
};

std::shared_ptr<Gate> hold() {
  const auto gate = std::make_shared<Gate>();
  enqueue(current(), [gate] {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->open; });
  });
  return gate;
}

void open(Gate& gate) {
  const std::lock_guard lock(gate.mutex);
  gate.open = true;
  gate.changed.notify_all();
}

int set_stream(int id) {
  const c10::Stream stream(c10::Stream::UNSAFE, Guard().getDevice(), id);
  return static_cast<int>(Guard().exchangeStream(stream).id());
}

/// As torch's: what nobody has taken is freed with it, and the rest with what lies there.
struct MemPool {
  explicit MemPool(std::pair<std::uintptr_t, std::uintptr_t> functions)
      : pool(std::make_shared<MemoryPool>(functions.first, functions.second)) {}
  ~MemPool() { pool->release(); }
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  std::shared_ptr<MemoryPool> pool;
};

void bind(py::module_& module) {
  py::class_<MemPool>(module, "MemPool")
      .def(py::init<std::pair<std::uintptr_t, std::uintptr_t>>())
      .def("begin", [](const MemPool& mine) { exchange_pool(mine.pool); })
      .def("end", [](const MemPool&) { exchange_pool(nullptr); })
      .def(
          "snapshot",
          [](const MemPool& mine, bool /*include_traces*/) {
            py::list segments;
            for (const std::uintptr_t begin : mine.pool->segments())
              segments.append(py::dict(py::arg("address") = begin));
            return segments;
          },
          py::arg("include_traces") = true);
  module.def("set_device", [](int device) { Guard().setDevice(c10::Device(c10::kCUDA, device)); });
  module.def("to_device", [](const at::Tensor& tensor) { return tensor.to(Guard().getDevice()); });
  module.def("set_stream", &set_stream, "Make a stream of the current device its current one; returns what was.");
  py::class_<Gate, std::shared_ptr<Gate>>(module, "Gate").def("open", &open);
  module.def("hold", &hold, "The current stream waits until the gate that this returns is opened.");
}

}  // namespace
}  // namespace pretend

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { pretend::bind(module); }
