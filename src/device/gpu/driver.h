// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, libcuda.so.1, opened when the program runs: its calls as this library uses them, without a header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/shared_library.h"

namespace lanecast::gpu {

using Address = std::uint64_t;  // of device memory, or of pinned host memory as devices see it
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using IpcHandle = std::array<char, 64>;

// Results, flags and attributes by the names of cuda.h, from CU_ on.
inline constexpr int kSuccess = 0;
inline constexpr int kNotReady = 600;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kMemHostAllocPortable = 1;
inline constexpr unsigned kMemHostAllocDeviceMap = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;
inline constexpr unsigned kStreamWaitValueGeq = 0;  // (signed)(*address - value) >= 0
inline constexpr unsigned kStreamWaitValueEq = 1;
inline constexpr int kAttributeWarpSize = 10;
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeCapabilityMajor = 75;
inline constexpr int kAttributeCapabilityMinor = 76;
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;  // a 32-bit word: 1 host, 2 device, 4 unified
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerIsLegacyIpcCapable = 10;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  alignas(8) std::array<std::byte, 64> value;
};

struct LaunchConfig {  // CUlaunchConfig
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// The calls are named as in cuda.h, where a macro may lead such a name to a later version: the quoted symbol. Each
/// returns a result for check().
class Driver {
  SharedLibrary library_;
  SharedLibrary::Symbol required(const char* name) const { return library_.required(name); }
  SharedLibrary::Symbol optional(const char* name) const { return library_.optional(name); }

 public:
  /// Opened and started. Throws UsageError that says what is missing and what to do.
  static std::shared_ptr<const Driver> open();

  /// Throws TransportError, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory", unless the result is that of
  /// success; UsageError for a device that is not there.
  void check(int result, const char* call) const;

  const std::string& path() const { return library_.path(); }
  int version() const;  // of CUDA, that the driver supports: 13000 is 13.0

  explicit Driver(SharedLibrary library) : library_(std::move(library)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int (*const cuInit)(unsigned) = required("cuInit");
  int (*const cuDriverGetVersion)(int*) = required("cuDriverGetVersion");
  int (*const cuGetErrorName)(int, const char**) = required("cuGetErrorName");
  int (*const cuGetErrorString)(int, const char**) = required("cuGetErrorString");

  int (*const cuDeviceGetCount)(int*) = required("cuDeviceGetCount");
  int (*const cuDeviceGet)(int*, int) = required("cuDeviceGet");
  int (*const cuDeviceGetName)(char*, int, int) = required("cuDeviceGetName");
  int (*const cuDeviceGetUuid)(std::array<char, 16>*, int) = required("cuDeviceGetUuid_v2");
  int (*const cuDeviceGetPCIBusId)(char*, int, int) = required("cuDeviceGetPCIBusId");
  int (*const cuDeviceGetByPCIBusId)(int*, const char*) = required("cuDeviceGetByPCIBusId");
  int (*const cuDeviceGetAttribute)(int*, int, int) = required("cuDeviceGetAttribute");
  int (*const cuDeviceCanAccessPeer)(int*, int, int) = required("cuDeviceCanAccessPeer");

  int (*const cuDevicePrimaryCtxRetain)(Context*, int) = required("cuDevicePrimaryCtxRetain");
  int (*const cuDevicePrimaryCtxRelease)(int) = required("cuDevicePrimaryCtxRelease_v2");
  int (*const cuCtxPushCurrent)(Context) = required("cuCtxPushCurrent_v2");
  int (*const cuCtxPopCurrent)(Context*) = required("cuCtxPopCurrent_v2");
  int (*const cuCtxGetCurrent)(Context*) = required("cuCtxGetCurrent");
  int (*const cuCtxGetDevice)(int*) = required("cuCtxGetDevice");
  int (*const cuCtxSynchronize)() = required("cuCtxSynchronize");
  int (*const cuCtxGetStreamPriorityRange)(int*, int*) = required("cuCtxGetStreamPriorityRange");
  int (*const cuCtxEnablePeerAccess)(Context, unsigned) = required("cuCtxEnablePeerAccess");

  int (*const cuMemAlloc)(Address*, std::size_t) = required("cuMemAlloc_v2");
  int (*const cuMemFree)(Address) = required("cuMemFree_v2");
  int (*const cuMemGetAddressRange)(Address*, std::size_t*, Address) = required("cuMemGetAddressRange_v2");
  int (*const cuMemHostAlloc)(void**, std::size_t, unsigned) = required("cuMemHostAlloc");
  int (*const cuMemHostGetDevicePointer)(Address*, void*, unsigned) = required("cuMemHostGetDevicePointer_v2");
  int (*const cuMemFreeHost)(void*) = required("cuMemFreeHost");
  int (*const cuPointerGetAttribute)(void*, int, Address) = required("cuPointerGetAttribute");
  int (*const cuPointerGetAttributes)(unsigned, int*, void**, Address) = required("cuPointerGetAttributes");
  int (*const cuIpcGetMemHandle)(IpcHandle*, Address) = required("cuIpcGetMemHandle");
  int (*const cuIpcOpenMemHandle)(Address*, IpcHandle, unsigned) = required("cuIpcOpenMemHandle_v2");
  int (*const cuIpcCloseMemHandle)(Address) = required("cuIpcCloseMemHandle");

  int (*const cuMemsetD8Async)(Address, unsigned char, std::size_t, Stream) = required("cuMemsetD8Async");
  int (*const cuMemsetD32Async)(Address, unsigned, std::size_t, Stream) = required("cuMemsetD32Async");
  int (*const cuMemcpyAsync)(Address, Address, std::size_t, Stream) = required("cuMemcpyAsync");
  int (*const cuMemcpyHtoD)(Address, const void*, std::size_t) = required("cuMemcpyHtoD_v2");
  int (*const cuMemcpyDtoH)(void*, Address, std::size_t) = required("cuMemcpyDtoH_v2");
  int (*const cuMemcpyHtoDAsync)(Address, const void*, std::size_t, Stream) = required("cuMemcpyHtoDAsync_v2");
  int (*const cuMemcpyDtoHAsync)(void*, Address, std::size_t, Stream) = required("cuMemcpyDtoHAsync_v2");

  int (*const cuStreamCreateWithPriority)(Stream*, unsigned, int) = required("cuStreamCreateWithPriority");
  int (*const cuStreamDestroy)(Stream) = required("cuStreamDestroy_v2");
  int (*const cuStreamSynchronize)(Stream) = required("cuStreamSynchronize");
  int (*const cuStreamQuery)(Stream) = required("cuStreamQuery");
  int (*const cuStreamIsCapturing)(Stream, int*) = required("cuStreamIsCapturing");
  int (*const cuStreamGetCtx)(Stream, Context*) = required("cuStreamGetCtx");
  int (*const cuStreamWaitEvent)(Stream, Event, unsigned) = required("cuStreamWaitEvent");
  int (*const cuStreamWriteValue32)(Stream, Address, std::uint32_t, unsigned) = required("cuStreamWriteValue32_v2");
  int (*const cuStreamWaitValue32)(Stream, Address, std::uint32_t, unsigned) = required("cuStreamWaitValue32_v2");
  int (*const cuStreamWriteValue64)(Stream, Address, std::uint64_t, unsigned) = required("cuStreamWriteValue64_v2");
  int (*const cuStreamWaitValue64)(Stream, Address, std::uint64_t, unsigned) = required("cuStreamWaitValue64_v2");

  int (*const cuEventCreate)(Event*, unsigned) = required("cuEventCreate");
  int (*const cuEventDestroy)(Event) = required("cuEventDestroy_v2");
  int (*const cuEventRecord)(Event, Stream) = required("cuEventRecord");
  int (*const cuEventQuery)(Event) = required("cuEventQuery");
  int (*const cuEventSynchronize)(Event) = required("cuEventSynchronize");
  int (*const cuEventElapsedTime)(float*, Event, Event) = required("cuEventElapsedTime");

  int (*const cuModuleLoadData)(Module*, const void*) = required("cuModuleLoadData");
  int (*const cuModuleUnload)(Module) = required("cuModuleUnload");
  int (*const cuModuleGetFunction)(Function*, Module, const char*) = required("cuModuleGetFunction");
  int (*const cuFuncSetAttribute)(Function, int, int) = required("cuFuncSetAttribute");
  int (*const cuLaunchKernel)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** arguments,
                              void** extra) = required("cuLaunchKernel");

  // Null in an older driver.
  int (*const cuThreadExchangeStreamCaptureMode)(int*) = optional("cuThreadExchangeStreamCaptureMode");  // 10.1
  int (*const cuFuncLoad)(Function) = optional("cuFuncLoad");                                            // 12.4
  int (*const cuLaunchKernelEx)(const LaunchConfig*, Function, void** arguments,
                                void** extra) = optional("cuLaunchKernelEx");  // 11.8
};

}  // namespace lanecast::gpu
