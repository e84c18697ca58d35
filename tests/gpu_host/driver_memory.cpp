// SPDX-License-Identifier: Apache-2.0
// Memory of a driver without a GPU: the host's, in files without a name, so that other processes can open it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "driver_state.h"

namespace gpu_host {
namespace {

struct Handle {
  int process, file;
  std::size_t bytes;
};

char* at(std::uint64_t address) { return reinterpret_cast<char*>(address); }

/// As a GPU's: not zero. What lies further on is not worth the time.
void soil(char* data, std::size_t bytes) { std::memset(data, 0xEE, std::min<std::size_t>(bytes, 1 << 20)); }

constexpr std::size_t kPage = 4096;
std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// How many processes have memory mapped that is another's: behind it, on a page of its own.
std::atomic_ref<int> openers(char* data, std::size_t bytes) {
  return std::atomic_ref(*reinterpret_cast<int*>(data + in_pages(bytes)));
}

int map(int file, std::size_t bytes, bool opened, std::uint64_t* address) {
  void* data = mmap(nullptr, in_pages(bytes) + kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return kOutOfMemory;
  if (opened) ++openers(static_cast<char*>(data), bytes);
  const std::lock_guard lock(state().mutex);
  state().memory[static_cast<char*>(data)] = {file, bytes, opened};
  *address = reinterpret_cast<std::uint64_t>(data);
  return kOk;
}

int unmap(std::uint64_t address, bool opened) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().memory.find(at(address));
  if (found == state().memory.end() || found->second.opened != opened) return kInvalidValue;
  const auto users = openers(found->first, found->second.bytes);
  if (opened)
    --users;
  else if (users != 0)
    ++state().torn;
  munmap(found->first, in_pages(found->second.bytes) + kPage);
  close(found->second.file);
  state().memory.erase(found);
  return kOk;
}

}  // namespace

extern "C" {

int cuCtxSynchronize();

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemAlloc")) return result;
  if (current() == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (bytes > std::size_t{1} << 40) return kOutOfMemory;
  const int file = memfd_create("gpu", MFD_CLOEXEC);
  if (ftruncate(file, static_cast<off_t>(in_pages(bytes) + kPage)) != 0) return kOutOfMemory;
  if (const int result = map(file, bytes, false, address)) return result;
  soil(at(*address), bytes);
  return kOk;
}

int cuMemFree_v2(std::uint64_t address) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (!state().captures) cuCtxSynchronize();  // as CUDA: what the device does may use it
  return current() ? unmap(address, false) : kInvalidContext;
}

int cuIpcGetMemHandle(std::array<char, 64>* handle, std::uint64_t address) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuIpcGetMemHandle")) return result;
  const std::lock_guard lock(state().mutex);
  const auto found = state().memory.find(at(address));
  if (found == state().memory.end()) return kInvalidValue;
  const Handle mine{getpid(), found->second.file, found->second.bytes};
  std::memcpy(handle->data(), &mine, sizeof mine);
  return kOk;
}

int cuIpcOpenMemHandle_v2(std::uint64_t* address, std::array<char, 64> handle, unsigned) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuIpcOpenMemHandle")) return result;
  if (current() == nullptr) return kInvalidContext;
  Handle theirs{};
  std::memcpy(&theirs, handle.data(), sizeof theirs);
  if (theirs.process == getpid()) return kInvalidContext;  // as CUDA: not in the process that has made it
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs.process, theirs.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  return file < 0 ? kInvalidValue : map(file, theirs.bytes, true, address);
}

int cuIpcCloseMemHandle(std::uint64_t address) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuIpcCloseMemHandle")) return result;
  return current() ? unmap(address, true) : kInvalidContext;
}

int cuMemHostAlloc(void** host, std::size_t bytes, unsigned) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuMemHostAlloc")) return result;
  if (current() == nullptr) return kInvalidContext;
  auto data = std::make_unique_for_overwrite<char[]>(bytes);
  soil(data.get(), bytes);
  *host = data.get();
  const std::lock_guard lock(state().mutex);
  state().pinned[*host] = std::move(data);
  return kOk;
}

int cuMemFreeHost(void* host) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (!state().captures) cuCtxSynchronize();
  const std::lock_guard lock(state().mutex);
  return state().pinned.erase(host) == 1 ? kOk : kInvalidValue;
}

int cuMemHostGetDevicePointer_v2(std::uint64_t* address, void* host, unsigned) {
  if (const int result = arranged("cuMemHostGetDevicePointer")) return result;
  *address = reinterpret_cast<std::uint64_t>(host);
  return kOk;
}

int cuMemGetAddressRange_v2(std::uint64_t* base, std::size_t* bytes, std::uint64_t address) {
  const std::lock_guard lock(state().mutex);
  const auto found_in = [&](const auto& all) {
    auto after = all.upper_bound(at(address));
    if (after == all.begin()) return false;
    --after;
    if (at(address) >= after->first + after->second.bytes) return false;
    if (base) *base = reinterpret_cast<std::uint64_t>(after->first);
    if (bytes) *bytes = after->second.bytes;
    return true;
  };
  return found_in(state().memory) || found_in(state().pieces) ? kOk : kInvalidValue;
}

}  // extern "C"

}  // namespace gpu_host
