// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/engine.h"

#include <utility>

#include "base/error.h"

namespace lanecast::emulated {
namespace {

std::shared_ptr<gpu::Device> device_at(const std::string& bus_id) {
  const auto driver = gpu::Driver::open();
  int count = 0;
  driver->check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int k = 0; k < count; ++k) {
    auto device = gpu::Device::open(k);
    if (device->pci_bus_id() == bus_id) return device;
  }
  throw UsageError("the GPU " + bus_id + " is none of the " + std::to_string(count) +
                   " that it sees; start it without CUDA_VISIBLE_DEVICES");
}

}  // namespace

Engine::Engine(const std::string& bus_id) : device_(device_at(bus_id)), stream_(device_) {}

gpu::Address Engine::locate(const PortMemory& port, const RegisteredPlace& place, std::uint64_t bytes) {
  if (place.key >= kMostRegistrations) throw InternalError("no key of GPU memory: " + std::to_string(place.key));
  Registration& entry = port.head().memory[place.key];
  auto at = opened_.find(&entry);
  if (at == opened_.end()) at = opened_.emplace(&entry, open(entry)).first;
  if (entry.known.load(std::memory_order_seq_cst) == 0) throw Withdrawn();
  if (place.offset > entry.bytes || bytes > entry.bytes - place.offset)
    throw InternalError("a work reaches beyond the end of GPU memory");
  return at->second.memory->address() + place.offset;
}

Engine::Opened Engine::open(Registration& entry) const {
  entry.openers.fetch_add(1, std::memory_order_seq_cst);  // before the look
  try {
    if (entry.known.load(std::memory_order_seq_cst) == 0) throw Withdrawn();
    return {std::make_unique<gpu::OpenedMemory>(device_, entry.handle), &entry};
  } catch (const Error& error) {
    // Perhaps only meanwhile: a rank waits a bounded time for who has it open, and then gives it back all the same.
    const bool is_withdrawn = entry.known.load(std::memory_order_seq_cst) == 0;
    entry.openers.fetch_sub(1, std::memory_order_release);
    if (is_withdrawn) throw Withdrawn();
    throw TransportError("GPU " + device_->pci_bus_id() + " cannot reach memory of GPU " + entry.bus_id.data() +
                         ", so no copy engine can play a NIC between them: " + error.what());
  }
}

template <class Goes>
void Engine::close_where(const Goes& goes) {
  bool quiet = false;
  for (auto at = opened_.begin(); at != opened_.end();) {
    Opened& opened = at->second;
    if (!goes(*opened.entry)) {
      ++at;
      continue;
    }
    // A copy under way would write into memory that its rank has given back.
    if (!std::exchange(quiet, true)) check(device_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
    opened.memory.reset();
    // Release: the rank that sees nobody has it open may give it back.
    opened.entry->openers.fetch_sub(1, std::memory_order_release);
    at = opened_.erase(at);
  }
}

void Engine::close_withdrawn() {
  close_where([](const Registration& entry) { return entry.known.load(std::memory_order_relaxed) == 0; });
}

void Engine::forget(const PortMemory& port) {
  const auto& table = port.head().memory;
  close_where(
      [&](const Registration& entry) { return &entry >= table.data() && &entry < table.data() + table.size(); });
}

void Engine::copy(gpu::Address to, gpu::Address from, std::uint64_t bytes) {
  check(device_->driver().copy(to, from, bytes, stream_.get()), "cuMemcpyAsync");
}

void Engine::write(gpu::Address at, std::uint32_t value) {
  check(device_->driver().cuStreamWriteValue32(stream_.get(), at, value, 0), "cuStreamWriteValue32");
}

std::uint64_t Engine::mark() {
  if (unused_.empty()) unused_.emplace_back(device_);
  marks_.push_back(std::move(unused_.front()));
  unused_.pop_front();
  check(device_->driver().cuEventRecord(marks_.back().get(), stream_.get()), "cuEventRecord");
  return reached_ + marks_.size();
}

bool Engine::reached(std::uint64_t mark) {
  while (reached_ < mark) {
    const int result = device_->driver().cuEventQuery(marks_.front().get());
    if (result == gpu::kNotReady) return false;
    check(result, "cuEventQuery");
    unused_.push_back(std::move(marks_.front()));
    marks_.pop_front();
    ++reached_;
  }
  return true;
}

}  // namespace lanecast::emulated
