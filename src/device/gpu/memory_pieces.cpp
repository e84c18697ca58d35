// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/memory_pieces.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/gpu/beside_captures.h"

namespace lanecast::gpu {
namespace {

/// A reference to physical memory.
class Held {
 public:
  explicit Held(const Driver& driver) : driver_(driver) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (taken_) driver_.cuMemRelease(handle_);
  }
  int retain(Address at) { return took(driver_.cuMemRetainAllocationHandle(&handle_, reinterpret_cast<void*>(at))); }
  int import(const FileDescriptor& file) {
    auto* const number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(file.get()));
    return took(driver_.cuMemImportFromShareableHandle(&handle_, number, kMemoryByFile));
  }
  PhysicalMemory get() const { return handle_; }

 private:
  int took(int result) {
    taken_ = result == kSuccess;
    return result;
  }

  const Driver& driver_;
  PhysicalMemory handle_ = 0;
  bool taken_ = false;
};

/// All of the calls, or none.
bool has_calls(const Driver& driver) { return driver.cuMemRetainAllocationHandle && driver.cuMemSetAccess; }

/// Why another process cannot map what lies there; empty: it can.
std::string refusal_of(const Device& device, Address at) {
  const Driver& driver = device.driver();
  Held memory(driver);
  PhysicalMemoryKind kind;
  if (memory.retain(at) != kSuccess) return "neither of one cudaMalloc, nor of cuMemCreate";
  device.check(driver.cuMemGetAllocationPropertiesFromHandle(&kind, memory.get()),
               "cuMemGetAllocationPropertiesFromHandle");
  if (kind.location.type != kMemoryOfDevice) return "not on a GPU";
  if (kind.location.device != device.ordinal()) return "on GPU " + std::to_string(kind.location.device);
  if ((kind.handle_types & kMemoryByFile) != 0) return {};
  return "made by cuMemCreate without CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR";
}

}  // namespace

MemoryPieces::MemoryPieces(std::shared_ptr<Device> device, Address begin, std::size_t bytes)
    : device_(std::move(device)) {
  const Driver& driver = device_->driver();
  if (bytes == 0) throw UsageError("it is empty");
  if (!has_calls(driver)) throw UsageError("not of one cudaMalloc (of torch's expandable segments, perhaps)");
  const Device::Current current(*device_);
  const BesideCaptures beside(driver);
  for (Address at = begin; at < begin + bytes;) {
    Address base = 0;
    std::size_t whole = 0;
    if (driver.cuMemGetAddressRange(&base, &whole, at) != kSuccess)
      throw UsageError("nothing lies at its byte " + std::to_string(at - begin));
    if (const std::string refusal = refusal_of(*device_, at); !refusal.empty()) throw UsageError(refusal);
    if (bytes_.empty()) begin_ = base;
    if (bytes_.size() == kMost)
      throw UsageError("of more than " + std::to_string(kMost) + " allocations side by side; register parts of it");
    bytes_.push_back(whole);
    at = base + whole;
  }
}

std::vector<FileDescriptor> MemoryPieces::files() const {
  const Device::Current current(*device_);
  const BesideCaptures beside(device_->driver());
  std::vector<FileDescriptor> files;
  Address at = begin_;
  for (const std::uint64_t bytes : bytes_) {
    Held memory(device_->driver());
    int file = -1;
    device_->check(memory.retain(at), "cuMemRetainAllocationHandle");
    device_->check(device_->driver().cuMemExportToShareableHandle(&file, memory.get(), kMemoryByFile, 0),
                   "cuMemExportToShareableHandle");
    files.emplace_back(file);
    at += bytes;
  }
  return files;
}

OpenedPieces::OpenedPieces(std::shared_ptr<Device> device, std::span<const std::uint64_t> bytes_of_each,
                           std::span<const FileDescriptor> files)
    : OpenedPieces(std::move(device)) {  // from here on what fails undoes what has been done
  const Driver& driver = device_->driver();
  if (!has_calls(driver)) throw TransportError("this driver cannot map memory of cuMemCreate");
  const Device::Current current(*device_);
  const BesideCaptures beside(driver);
  const std::size_t whole = std::accumulate(bytes_of_each.begin(), bytes_of_each.end(), std::size_t{0});
  device_->check(driver.cuMemAddressReserve(&begin_, whole, /*alignment=*/0, /*wanted=*/0, /*flags=*/0),
                 "cuMemAddressReserve");
  reserved_ = whole;
  Address at = begin_;
  for (std::size_t k = 0; k < files.size(); at += bytes_of_each[k++]) {
    Held memory(driver);  // what is mapped keeps it
    device_->check(memory.import(files[k]), "cuMemImportFromShareableHandle");
    device_->check(driver.cuMemMap(at, bytes_of_each[k], /*offset=*/0, memory.get(), /*flags=*/0), "cuMemMap");
    mapped_.push_back(bytes_of_each[k]);
  }
  const MemoryAccess ours{.location = {.device = device_->ordinal()}};
  device_->check(driver.cuMemSetAccess(begin_, whole, &ours, 1), "cuMemSetAccess");
}

OpenedPieces::OpenedPieces(OpenedPieces&& other) noexcept
    : device_(std::move(other.device_)),
      begin_(other.begin_),
      reserved_(std::exchange(other.reserved_, 0)),
      mapped_(std::move(other.mapped_)) {}

OpenedPieces::~OpenedPieces() {
  if (reserved_ == 0) return;
  const Driver& driver = device_->driver();
  int before = 0;
  if (device_->enter(&before) != kSuccess) return;  // as Owned: the driver may have gone first
  const BesideCaptures beside(driver);
  Address at = begin_;
  for (const std::uint64_t bytes : mapped_) {
    driver.cuMemUnmap(at, bytes);
    at += bytes;
  }
  driver.cuMemAddressFree(begin_, reserved_);
  driver.leave(before);
}

}  // namespace lanecast::gpu
