// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, libcuda.so.1, or AMD's HIP, libamdhip64.so, opened when the program runs: their calls as this
// library uses them, without a header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/gpu_vendor.h"
#include "base/shared_library.h"

namespace lanecast::gpu {

using Address = std::uint64_t;  // of device memory, or of pinned host memory as devices see it
inline Address address_of(const void* memory) { return reinterpret_cast<Address>(memory); }
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Graph = struct CUgraph_st*;
using UserObject = struct CUuserObject_st*;
using IpcHandle = std::array<char, 64>;
using PhysicalMemory = unsigned long long;  // CUmemGenericAllocationHandle

// Results and flags by the names of cuda.h, from CU_ on; HIP has the same numbers.
inline constexpr int kSuccess = 0;
inline constexpr int kNotReady = 600;
inline constexpr int kNotSupported = 801;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kMemHostAllocPortable = 1;
inline constexpr unsigned kMemHostAllocDeviceMap = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kMemoryOfDevice = 1;         // LOCATION_TYPE_DEVICE
inline constexpr int kMemoryByFile = 1;           // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kMemoryReadAndWritten = 3;   // ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kFunctionSharedRoom = 8;     // FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kRemoteWritesOrdered = 100;  // GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER

/// Of a device. The vendors have numbers of their own for them; of the last four AMD has none.
enum class Attribute {
  warp_size,
  multiprocessors,
  capability_major,
  capability_minor,
  remote_writes_ordering,  // kRemoteWritesOrdered or more: a NIC's writes are seen in their order
  shared_room,             // bytes of shared memory that a block may ask for
  multicast,               // what one writes, NVSwitch can bring to many, and add what many have
  cluster_launch,
};

/// How a kernel is launched whose blocks come in clusters, in the layout of cuda.h.
struct alignas(8) LaunchAttribute {
  int which = 4;  // CLUSTER_DIMENSION
  int unused = 0;
  unsigned value[16] = {1, 1, 1};
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// Where physical memory lies, how it may be shared, and who may access it, likewise.
struct MemoryLocation {
  int type = kMemoryOfDevice;
  int device = 0;
};
struct PhysicalMemoryKind {
  int type = 0, handle_types = 0;
  MemoryLocation location;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};
struct MemoryAccess {
  MemoryLocation location;
  int flags = kMemoryReadAndWritten;
};

/// The calls are named as in cuda.h, where a macro may lead such a name to a later version: the quoted symbol. HIP's
/// call of the same arguments stands behind it; a device address is a pointer there, and passed alike. What has no such
/// twin is null with the other vendor, and reached by a function of this class. Each returns a result for check().
class Driver {
  GpuVendor vendor_;
  SharedLibrary library_;
  SharedLibrary::Symbol required(const char* cuda, const char* hip) const {
    return library_.required(vendor_ == GpuVendor::amd ? hip : cuda);
  }
  SharedLibrary::Symbol optional(const char* cuda, const char* hip) const {
    const char* const name = vendor_ == GpuVendor::amd ? hip : cuda;
    return name == nullptr ? SharedLibrary::Symbol(nullptr) : library_.optional(name);
  }
  SharedLibrary::Symbol cuda(const char* name) const { return of(GpuVendor::nvidia, name); }
  SharedLibrary::Symbol hip(const char* name) const { return of(GpuVendor::amd, name); }
  SharedLibrary::Symbol of(GpuVendor vendor, const char* name) const {
    return vendor_ == vendor ? library_.required(name) : SharedLibrary::Symbol(nullptr);
  }

 public:
  /// Opened and started: NVIDIA's, or where there is none of it AMD's. Throws UsageError that says what is missing and
  /// what to do.
  static std::shared_ptr<const Driver> open();

  /// Throws TransportError, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory", unless the result is that of
  /// success; UsageError for a device that is not there.
  void check(int result, const char* call) const;

  GpuVendor vendor() const { return vendor_; }
  const std::string& path() const { return library_.path(); }
  std::string version() const;  // of what the driver supports: "CUDA 13.0", "HIP 6.2"

  // The same for both vendors.

  int attribute(int* value, Attribute which, int device) const;
  /// What its compiler calls it: "sm_90", "gfx90a".
  std::string architecture(int device) const;
  /// As this thread's calls have it, from 0.
  int current_device(int* device) const;
  /// Is it the one of this thread's calls, for certain?
  bool has_entered(Context context) const;
  /// Makes a device the one of this thread's calls. leave() makes it what it was, with the number that this has found.
  int enter(Context context, int device, int* before) const;
  void leave(int before) const;
  /// Memory that peers' devices may read and write while kernels run here.
  int allocate(Address* address, std::size_t bytes) const;
  /// Memory of the host that all devices and their kernels see at once.
  int pin(void** host, std::size_t bytes) const;
  /// A peer process' memory, so that this device reaches it.
  int open_peer(Address* address, const IpcHandle& handle) const;
  /// Another number for each stream of this process, those that are gone included; 0 where none is known.
  std::uint64_t number_of(Stream stream) const;
  /// Either may lie on any device, or on the host: where it is not pinned there, this may wait for the copy.
  int copy(Address to, Address from, std::size_t bytes, Stream stream) const;

  Driver(GpuVendor vendor, SharedLibrary library) : vendor_(vendor), library_(std::move(library)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int (*const cuInit)(unsigned) = required("cuInit", "hipInit");
  int (*const cuDriverGetVersion)(int*) = required("cuDriverGetVersion", "hipDriverGetVersion");
  int (*const cuGetErrorName)(int, const char**) = cuda("cuGetErrorName");
  int (*const cuGetErrorString)(int, const char**) = cuda("cuGetErrorString");

  int (*const cuDeviceGetCount)(int*) = required("cuDeviceGetCount", "hipGetDeviceCount");
  int (*const cuDeviceGet)(int*, int) = required("cuDeviceGet", "hipDeviceGet");
  int (*const cuDeviceGetName)(char*, int, int) = required("cuDeviceGetName", "hipDeviceGetName");
  int (*const cuDeviceGetUuid)(std::array<char, 16>*, int) = required("cuDeviceGetUuid_v2", "hipDeviceGetUuid");
  int (*const cuDeviceGetPCIBusId)(char*, int, int) = required("cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId");
  int (*const cuDeviceCanAccessPeer)(int*, int, int) = required("cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer");
  int (*const cuDeviceGetAttribute)(int*, int, int) = required("cuDeviceGetAttribute", "hipDeviceGetAttribute");

  int (*const cuDevicePrimaryCtxRetain)(Context*, int) = cuda("cuDevicePrimaryCtxRetain");
  int (*const cuDevicePrimaryCtxRelease)(int) = cuda("cuDevicePrimaryCtxRelease_v2");
  int (*const cuCtxPushCurrent)(Context) = cuda("cuCtxPushCurrent_v2");
  int (*const cuCtxPopCurrent)(Context*) = cuda("cuCtxPopCurrent_v2");
  int (*const cuCtxGetCurrent)(Context*) = cuda("cuCtxGetCurrent");
  int (*const cuCtxGetDevice)(int*) = cuda("cuCtxGetDevice");
  int (*const cuCtxSynchronize)() = required("cuCtxSynchronize", "hipDeviceSynchronize");
  int (*const cuCtxGetStreamPriorityRange)(int*, int*) = required("cuCtxGetStreamPriorityRange",
                                                                  "hipDeviceGetStreamPriorityRange");

  int (*const cuMemAlloc)(Address*, std::size_t) = cuda("cuMemAlloc_v2");
  int (*const cuMemFree)(Address) = required("cuMemFree_v2", "hipFree");
  int (*const cuMemGetAddressRange)(Address*, std::size_t*, Address) = required("cuMemGetAddressRange_v2",
                                                                                "hipMemGetAddressRange");
  int (*const cuMemHostAlloc)(void**, std::size_t, unsigned) = required("cuMemHostAlloc", "hipHostMalloc");
  int (*const cuMemHostGetDevicePointer)(Address*, void*, unsigned) = required("cuMemHostGetDevicePointer_v2",
                                                                               "hipHostGetDevicePointer");
  int (*const cuMemFreeHost)(void*) = required("cuMemFreeHost", "hipHostFree");
  int (*const cuPointerGetAttribute)(void*, int, Address) = required("cuPointerGetAttribute", "hipPointerGetAttribute");
  int (*const cuIpcGetMemHandle)(IpcHandle*, Address) = required("cuIpcGetMemHandle", "hipIpcGetMemHandle");
  int (*const cuIpcOpenMemHandle)(Address*, IpcHandle, unsigned) = required("cuIpcOpenMemHandle_v2",
                                                                            "hipIpcOpenMemHandle");
  int (*const cuIpcCloseMemHandle)(Address) = required("cuIpcCloseMemHandle", "hipIpcCloseMemHandle");

  int (*const cuMemsetD8Async)(Address, unsigned char, std::size_t, Stream) = required("cuMemsetD8Async",
                                                                                       "hipMemsetD8Async");
  int (*const cuMemcpyAsync)(Address, Address, std::size_t, Stream) = cuda("cuMemcpyAsync");

  int (*const cuStreamCreateWithPriority)(Stream*, unsigned, int) = required("cuStreamCreateWithPriority",
                                                                             "hipStreamCreateWithPriority");
  int (*const cuStreamDestroy)(Stream) = required("cuStreamDestroy_v2", "hipStreamDestroy");
  int (*const cuStreamSynchronize)(Stream) = required("cuStreamSynchronize", "hipStreamSynchronize");
  int (*const cuStreamIsCapturing)(Stream, int*) = required("cuStreamIsCapturing", "hipStreamIsCapturing");
  int (*const cuStreamWaitEvent)(Stream, Event, unsigned) = required("cuStreamWaitEvent", "hipStreamWaitEvent");
  int (*const cuStreamWriteValue32)(Stream, Address, std::uint32_t, unsigned) = required("cuStreamWriteValue32_v2",
                                                                                         "hipStreamWriteValue32");

  int (*const cuEventCreate)(Event*, unsigned) = required("cuEventCreate", "hipEventCreateWithFlags");
  int (*const cuEventDestroy)(Event) = required("cuEventDestroy_v2", "hipEventDestroy");
  int (*const cuEventElapsedTime)(float* ms, Event before, Event after) = required("cuEventElapsedTime",
                                                                                   "hipEventElapsedTime");
  int (*const cuEventRecord)(Event, Stream) = required("cuEventRecord", "hipEventRecord");
  int (*const cuEventQuery)(Event) = required("cuEventQuery", "hipEventQuery");

  int (*const cuModuleLoadData)(Module*, const void*) = required("cuModuleLoadData", "hipModuleLoadData");
  int (*const cuModuleUnload)(Module) = required("cuModuleUnload", "hipModuleUnload");
  int (*const cuModuleGetFunction)(Function*, Module, const char*) = required("cuModuleGetFunction",
                                                                              "hipModuleGetFunction");
  int (*const cuFuncSetAttribute)(Function, int, int) = cuda("cuFuncSetAttribute");
  int (*const cuLaunchKernel)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** arguments,
                              void** extra) = required("cuLaunchKernel", "hipModuleLaunchKernel");

  const char* (*const hipGetErrorName)(int) = hip("hipGetErrorName");
  const char* (*const hipGetErrorString)(int) = hip("hipGetErrorString");
  int (*const hipGetDevice)(int*) = hip("hipGetDevice");
  int (*const hipSetDevice)(int) = hip("hipSetDevice");
  int (*const hipExtMallocWithFlags)(void**, std::size_t, unsigned) = hip("hipExtMallocWithFlags");
  int (*const hipMemcpyAsync)(void*, const void*, std::size_t, int, Stream) = hip("hipMemcpyAsync");

  // Null in an older driver, and in AMD's.
  int (*const cuThreadExchangeStreamCaptureMode)(int*) = optional("cuThreadExchangeStreamCaptureMode",
                                                                  "hipThreadExchangeStreamCaptureMode");  // 10.1
  int (*const cuStreamGetCaptureInfo)(Stream, int* status, std::uint64_t* number, Graph*, const void** after,
                                      std::size_t* afters) = optional("cuStreamGetCaptureInfo_v2",
                                                                      "hipStreamGetCaptureInfo_v2");  // 11.3
  int (*const cuMemRetainAllocationHandle)(PhysicalMemory*, void*) = optional("cuMemRetainAllocationHandle",
                                                                              nullptr);  // 11.0, as what follows
  int (*const cuMemGetAllocationPropertiesFromHandle)(PhysicalMemoryKind*, PhysicalMemory) =
      optional("cuMemGetAllocationPropertiesFromHandle", nullptr);
  int (*const cuMemExportToShareableHandle)(void*, PhysicalMemory, int type,
                                            unsigned long long flags) = optional("cuMemExportToShareableHandle",
                                                                                 nullptr);
  int (*const cuMemImportFromShareableHandle)(PhysicalMemory*, void*,
                                              int type) = optional("cuMemImportFromShareableHandle", nullptr);
  int (*const cuMemAddressReserve)(Address*, std::size_t, std::size_t alignment, Address wanted,
                                   unsigned long long flags) = optional("cuMemAddressReserve", nullptr);
  int (*const cuMemAddressFree)(Address, std::size_t) = optional("cuMemAddressFree", nullptr);
  int (*const cuMemMap)(Address, std::size_t, std::size_t offset, PhysicalMemory,
                        unsigned long long flags) = optional("cuMemMap", nullptr);
  int (*const cuMemUnmap)(Address, std::size_t) = optional("cuMemUnmap", nullptr);
  int (*const cuMemSetAccess)(Address, std::size_t, const MemoryAccess*, std::size_t) = optional("cuMemSetAccess",
                                                                                                 nullptr);
  int (*const cuMemRelease)(PhysicalMemory) = optional("cuMemRelease", nullptr);
  int (*const cuUserObjectCreate)(UserObject*, void* object, void (*destroy)(void*), unsigned references,
                                  unsigned flags) = optional("cuUserObjectCreate", nullptr);  // 11.3
  int (*const cuGraphRetainUserObject)(Graph, UserObject, unsigned references,
                                       unsigned flags) = optional("cuGraphRetainUserObject", nullptr);  // 11.3
  int (*const cuLaunchKernelEx)(const LaunchConfig*, Function, void** arguments,
                                void** extra) = optional("cuLaunchKernelEx", nullptr);           // 11.8
  int (*const cuStreamGetId)(Stream, unsigned long long*) = optional("cuStreamGetId", nullptr);  // 12.0
  int (*const cuFuncLoad)(Function) = optional("cuFuncLoad", nullptr);                           // 12.4
};

}  // namespace lanecast::gpu
