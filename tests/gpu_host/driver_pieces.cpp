// SPDX-License-Identifier: Apache-2.0
// Memory that programs map by themselves, of a driver without a GPU: physical memory is a file without a name, a
// reserved range is addresses that nobody may touch, and what is mapped there can be touched once access is set.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "device/gpu/driver.h"
#include "driver_state.h"

namespace gpu_host {
namespace {

constexpr std::size_t kGranularity = 2 << 20;
constexpr std::size_t kHeadBytes = 4096;  // at the end of the file: what a process that imports it has to know

struct Head {
  int device = 0, handle_types = 0;
};

char* at(std::uint64_t address) { return reinterpret_cast<char*>(address); }
bool is_whole(std::uint64_t number) { return number != 0 && number % kGranularity == 0; }

/// The range that [address, address + bytes) lies in.
bool is_reserved(char* begin, std::size_t bytes) {
  auto after = state().reserved.upper_bound(begin);
  if (after == state().reserved.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

bool is_mapped(char* begin, std::size_t bytes) {
  for (const auto& [from, piece] : state().pieces)
    if (from < begin + bytes && begin < from + piece.bytes) return true;
  return false;
}

void nobody_may_touch(char* begin, std::size_t bytes) {
  mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

unsigned long long handle_of(const std::shared_ptr<Physical>& physical) {
  const auto handle = reinterpret_cast<unsigned long long>(physical.get());
  state().physical[handle] = physical;
  ++physical->held;
  return handle;
}

}  // namespace

Physical::~Physical() {
  close(file);
  --(imported ? state().physical_imported : state().physical_made);
}

extern "C" {

int cuMemGetAllocationGranularity(std::size_t* bytes, const void*, int) { return *bytes = kGranularity, kOk; }

int cuMemCreate(unsigned long long* handle, std::size_t bytes, const lanecast::gpu::PhysicalMemoryKind* kind,
                unsigned long long) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemCreate")) return result;
  if (!is_whole(bytes) || kind->location.type != lanecast::gpu::kMemoryOfDevice) return kInvalidValue;
  auto physical = std::make_shared<Physical>();
  ++state().physical_made;
  physical->file = memfd_create("gpu-piece", MFD_CLOEXEC);
  physical->device = kind->location.device;
  physical->handle_types = kind->handle_types;
  physical->bytes = bytes;
  const Head head{physical->device, physical->handle_types};
  if (ftruncate(physical->file, static_cast<off_t>(bytes + kHeadBytes)) != 0 ||
      pwrite(physical->file, &head, sizeof head, static_cast<off_t>(bytes)) != sizeof head)
    return kOutOfMemory;
  const std::lock_guard lock(state().mutex);
  return *handle = handle_of(physical), kOk;
}

int cuMemRelease(unsigned long long handle) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  std::shared_ptr<Physical> gone;  // closed without the lock
  const std::lock_guard lock(state().mutex);
  const auto found = state().physical.find(handle);
  if (found == state().physical.end()) return kInvalidValue;
  if (--found->second->held > 0) return kOk;
  gone = std::move(found->second);
  return state().physical.erase(found), kOk;
}

int cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  if (const int result = arranged("cuMemRetainAllocationHandle")) return result;
  const std::lock_guard lock(state().mutex);
  auto after = state().pieces.upper_bound(static_cast<char*>(address));
  if (after == state().pieces.begin()) return kInvalidValue;
  --after;
  if (static_cast<char*>(address) >= after->first + after->second.bytes) return kInvalidValue;
  return *handle = handle_of(after->second.physical), kOk;
}

int cuMemGetAllocationPropertiesFromHandle(lanecast::gpu::PhysicalMemoryKind* kind, unsigned long long handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().physical.find(handle);
  if (found == state().physical.end()) return kInvalidValue;
  *kind = {.type = 1, .handle_types = found->second->handle_types, .location = {.device = found->second->device}};
  return kOk;
}

int cuMemExportToShareableHandle(void* exported, unsigned long long handle, int type, unsigned long long) {
  if (const int result = arranged("cuMemExportToShareableHandle")) return result;
  const std::lock_guard lock(state().mutex);
  const auto found = state().physical.find(handle);
  if (found == state().physical.end() || type != lanecast::gpu::kMemoryByFile) return kInvalidValue;
  if ((found->second->handle_types & type) == 0) return kInvalidValue;
  const int file = fcntl(found->second->file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return kOutOfMemory;
  return *static_cast<int*>(exported) = file, kOk;
}

/// The file stays the caller's.
int cuMemImportFromShareableHandle(unsigned long long* handle, void* given, int type) {
  if (const int result = arranged("cuMemImportFromShareableHandle")) return result;
  const int file = static_cast<int>(reinterpret_cast<std::uintptr_t>(given));
  char path[64], name[64] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  struct stat found{};
  Head head;
  if (type != lanecast::gpu::kMemoryByFile || readlink(path, name, sizeof name - 1) < 0 ||
      !std::string_view(name).starts_with("/memfd:gpu-piece") || fstat(file, &found) != 0)
    return kInvalidValue;
  const std::size_t bytes = static_cast<std::size_t>(found.st_size) - kHeadBytes;
  if (pread(file, &head, sizeof head, static_cast<off_t>(bytes)) != sizeof head) return kInvalidValue;
  auto physical = std::make_shared<Physical>();
  ++state().physical_imported;
  physical->imported = true;
  physical->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  physical->device = head.device;
  physical->handle_types = head.handle_types;
  physical->bytes = bytes;
  const std::lock_guard lock(state().mutex);
  return *handle = handle_of(physical), kOk;
}

int cuMemAddressReserve(std::uint64_t* address, std::size_t bytes, std::size_t, std::uint64_t, unsigned long long) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemAddressReserve")) return result;
  if (!is_whole(bytes)) return kInvalidValue;
  const std::size_t room = bytes + kGranularity;
  void* const found = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return kOutOfMemory;
  char* const begin = static_cast<char*>(found);
  const std::size_t before = (kGranularity - reinterpret_cast<std::uintptr_t>(begin) % kGranularity) % kGranularity;
  if (before != 0) munmap(begin, before);
  if (before != kGranularity) munmap(begin + before + bytes, kGranularity - before);
  const std::lock_guard lock(state().mutex);
  state().reserved[begin + before] = bytes;
  return *address = reinterpret_cast<std::uint64_t>(begin + before), kOk;
}

/// Refused while anything is mapped there.
int cuMemAddressFree(std::uint64_t address, std::size_t bytes) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  const std::lock_guard lock(state().mutex);
  const auto found = state().reserved.find(at(address));
  if (found == state().reserved.end() || found->second != bytes || is_mapped(at(address), bytes)) return kInvalidValue;
  munmap(found->first, bytes);
  return state().reserved.erase(found), kOk;
}

int cuMemMap(std::uint64_t address, std::size_t bytes, std::size_t offset, unsigned long long handle,
             unsigned long long) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemMap")) return result;
  const std::lock_guard lock(state().mutex);
  const auto found = state().physical.find(handle);
  if (found == state().physical.end() || offset != 0 || !is_whole(bytes) || bytes > found->second->bytes ||
      !is_reserved(at(address), bytes) || is_mapped(at(address), bytes))
    return kInvalidValue;
  state().pieces[at(address)] = {found->second, bytes};
  return kOk;
}

/// Whole pieces.
int cuMemUnmap(std::uint64_t address, std::size_t bytes) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  std::vector<std::shared_ptr<Physical>> gone;
  const std::lock_guard lock(state().mutex);
  for (std::size_t done = 0; done < bytes;) {
    const auto found = state().pieces.find(at(address) + done);
    if (found == state().pieces.end() || done + found->second.bytes > bytes) return kInvalidValue;
    nobody_may_touch(found->first, found->second.bytes);
    done += found->second.bytes;
    gone.push_back(std::move(found->second.physical));
    state().pieces.erase(found);
  }
  return kOk;
}

/// Whole pieces, of the devices that are named.
int cuMemSetAccess(std::uint64_t address, std::size_t bytes, const lanecast::gpu::MemoryAccess* wanted,
                   std::size_t count) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemSetAccess")) return result;
  if (count == 0 || wanted->flags != lanecast::gpu::kMemoryReadAndWritten) return kInvalidValue;
  const std::lock_guard lock(state().mutex);
  for (std::size_t done = 0; done < bytes;) {
    const auto found = state().pieces.find(at(address) + done);
    if (found == state().pieces.end() || done + found->second.bytes > bytes) return kInvalidValue;
    if (mmap(found->first, found->second.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             found->second.physical->file, 0) == MAP_FAILED)
      return kOutOfMemory;
    done += found->second.bytes;
  }
  return kOk;
}

}  // extern "C"

}  // namespace gpu_host
