// SPDX-License-Identifier: Apache-2.0
// UCP, the upper layer of UCX, as far as this library uses it: declared here, since no header is needed to build.
//
// Names, values and layouts are those of ucp/api/ucp.h and ucp_def.h of UCX 1.14 to 1.22, which grow at their ends
// only; a test compares them with each header that is installed. Of structures whose fields are picked by a mask,
// what comes after the last field that is used here is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/shared_library.h"

namespace lanecast::ucx {

inline constexpr const char* kLibraryName = "libucp.so.0";
inline constexpr unsigned kOldestMajor = 1, kOldestMinor = 14;

using Context = struct ucp_context*;
using WorkerHandle = struct ucp_worker*;
using Endpoint = struct ucp_ep*;
using Config = struct ucp_config;
using Address = struct ucp_address;
using MemoryHandle = struct ucp_mem*;
using Request = void*;       // null: done at once; as a small negative number: a status
using Status = std::int8_t;  // 0: good; below: an error. A packed enum: what else its register holds means nothing

inline constexpr Status kInProgress = 1, kNoDevice = -14, kUnreachable = -6, kTruncated = -9, kCanceled = -16,
                        kNotConnected = -24, kLeastStatus = -100;

struct ContextParams {
  static constexpr std::uint64_t kFeatures = 1 << 0, kEstimatedEndpoints = 1 << 6;
  static constexpr std::uint64_t kTagFeature = 1 << 0, kWakeUpFeature = 1 << 4, kActiveMessageFeature = 1 << 6;

  std::uint64_t field_mask = 0;
  std::uint64_t features = 0;
  std::size_t request_size = 0;
  void (*request_init)(void*) = nullptr;
  void (*request_cleanup)(void*) = nullptr;
  std::uint64_t tag_sender_mask = 0;
  int mt_workers_shared = 0;
  std::size_t estimated_num_eps = 0;
};

struct ContextAttributes {
  static constexpr std::uint64_t kMemoryTypes = 1 << 2;
  static constexpr int kCuda = 1, kRocm = 3;  // bits of memory_types

  std::uint64_t field_mask = 0;
  std::size_t request_size = 0;
  int thread_mode = 0;
  std::uint64_t memory_types = 0;
};

struct WorkerParams {
  static constexpr std::uint64_t kThreadMode = 1 << 0, kFlags = 1 << 5;
  static constexpr int kSerialized = 1;
  static constexpr std::uint64_t kIgnoreRequestLeak = 1 << 0;

  std::uint64_t field_mask = 0;
  int thread_mode = 0;
  unsigned long cpu_mask[16] = {};
  unsigned events = 0;
  void* user_data = nullptr;
  int event_fd = -1;
  std::uint64_t flags = 0;
};

struct WorkerAttributes {
  static constexpr std::uint64_t kAddress = 1 << 1;

  std::uint64_t field_mask = 0;
  int thread_mode = 0;
  std::uint32_t address_flags = 0;
  Address* address = nullptr;
  std::size_t address_length = 0;
};

struct EndpointParams {
  static constexpr std::uint64_t kRemoteAddress = 1 << 0, kErrorMode = 1 << 1, kErrorHandler = 1 << 2;
  static constexpr int kPeerFailures = 1;

  std::uint64_t field_mask = 0;
  const Address* address = nullptr;
  int error_mode = 0;
  struct {
    void (*handle)(void* argument, Endpoint endpoint, Status status) = nullptr;
    void* argument = nullptr;
  } error_handler;
};

struct TagInfo {
  std::uint64_t sender_tag = 0;
  std::size_t length = 0;
};

struct RequestParams {
  static constexpr std::uint32_t kCallback = 1 << 1, kUserData = 1 << 2, kDatatype = 1 << 3, kFlags = 1 << 4,
                                 kMemoryType = 1 << 6, kMemoryHandle = 1 << 8;
  static constexpr std::uint32_t kAlwaysCallsBack = 1 << 16;      // of what is done at once, before the call returns
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 3;  // a contiguous type of 1 byte
  static constexpr std::uint64_t kVectors = 2;                    // of struct { void*; std::size_t; }
  static constexpr std::uint32_t kForceClose = 1 << 0;            // flags of ucp_ep_close_nbx
  static constexpr std::uint32_t kEagerCopied = 1 << 1 | 1 << 3;  // flags of ucp_am_send_nbx: eager, header copied

  std::uint32_t field_mask = 0;
  std::uint32_t flags = 0;
  void* request = nullptr;
  union {
    void (*sent)(void* request, Status status, void* user_data) = nullptr;
    void (*received)(void* request, Status status, const TagInfo* info, void* user_data);
  } callback;
  std::uint64_t datatype = 0;
  void* user_data = nullptr;
  void* reply_buffer = nullptr;
  int memory_type = 0;              // the host's
  TagInfo* receive_info = nullptr;  // releases before 1.16 do not fill it
  MemoryHandle memory_handle = nullptr;
};

struct MemoryParams {
  static constexpr std::uint64_t kAddress = 1 << 0, kLength = 1 << 1, kMemoryType = 1 << 4;

  std::uint64_t field_mask = 0;
  void* address = nullptr;
  std::size_t length = 0;
  unsigned flags = 0;
  unsigned protection = 0;
  int memory_type = 0;
};

struct ActiveMessageHandler {
  static constexpr std::uint64_t kId = 1 << 0, kCallback = 1 << 2, kArgument = 1 << 3;

  std::uint64_t field_mask = 0;
  unsigned id = 0;
  std::uint32_t flags = 0;
  Status (*callback)(void* argument, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                     const void* param) = nullptr;
  void* argument = nullptr;
};

/// UCP's functions. The library stays in the process.
class Ucp {
 public:
  /// Throws UsageError that says what was tried and what to do.
  static const Ucp& loaded();
  /// Would loaded() not throw?
  static bool found();

  const std::string& path() const { return library_.path(); }
  std::string version() const;
  bool is_at_least(unsigned major, unsigned minor) const;
  std::string words(Status status) const { return ucs_status_string(status); }
  /// Throws TransportError with UCX's words for a status below 0.
  void check(Status status, const char* what) const;

  const char* (*ucp_get_version_string)();
  void (*ucp_get_version)(unsigned* major, unsigned* minor, unsigned* release);
  Status (*ucp_config_read)(const char* prefix, const char* file, Config** config);
  Status (*ucp_config_modify)(Config* config, const char* name, const char* value);
  void (*ucp_config_print)(const Config* config, std::FILE* to, const char* title, int flags);
  void (*ucp_config_release)(Config* config);
  Status (*ucp_init_version)(unsigned major, unsigned minor, const ContextParams* params, const Config* config,
                             Context* context);
  Status (*ucp_context_query)(Context context, ContextAttributes* attributes);
  void (*ucp_cleanup)(Context context);
  Status (*ucp_mem_map)(Context context, const MemoryParams* params, MemoryHandle* handle);
  Status (*ucp_mem_unmap)(Context context, MemoryHandle handle);
  Status (*ucp_rkey_pack)(Context context, MemoryHandle handle, void** key, std::size_t* bytes);
  void (*ucp_rkey_buffer_release)(void* key);
  Status (*ucp_worker_create)(Context context, const WorkerParams* params, WorkerHandle* worker);
  void (*ucp_worker_destroy)(WorkerHandle worker);
  Status (*ucp_worker_query)(WorkerHandle worker, WorkerAttributes* attributes);
  void (*ucp_worker_release_address)(WorkerHandle worker, Address* address);
  unsigned (*ucp_worker_progress)(WorkerHandle worker);
  Status (*ucp_worker_get_efd)(WorkerHandle worker, int* fd);
  Status (*ucp_worker_arm)(WorkerHandle worker);
  Status (*ucp_worker_set_am_recv_handler)(WorkerHandle worker, const ActiveMessageHandler* handler);
  Status (*ucp_ep_create)(WorkerHandle worker, const EndpointParams* params, Endpoint* endpoint);
  Request (*ucp_ep_flush_nbx)(Endpoint endpoint, const RequestParams* params);
  Request (*ucp_ep_close_nbx)(Endpoint endpoint, const RequestParams* params);
  Request (*ucp_tag_send_nbx)(Endpoint endpoint, const void* buffer, std::size_t count, std::uint64_t tag,
                              const RequestParams* params);
  Request (*ucp_tag_recv_nbx)(WorkerHandle worker, void* buffer, std::size_t count, std::uint64_t tag,
                              std::uint64_t mask, const RequestParams* params);
  void* (*ucp_tag_probe_nb)(WorkerHandle worker, std::uint64_t tag, std::uint64_t mask, int remove, TagInfo* info);
  Request (*ucp_am_send_nbx)(Endpoint endpoint, unsigned id, const void* header, std::size_t header_bytes,
                             const void* buffer, std::size_t count, const RequestParams* params);
  Status (*ucp_request_check_status)(Request request);
  void (*ucp_request_cancel)(WorkerHandle worker, Request request);
  void (*ucp_request_free)(Request request);
  const char* (*ucs_status_string)(Status status);

 private:
  explicit Ucp(SharedLibrary library);

  SharedLibrary library_;
};

/// The status in a request that has failed at once, kInProgress for a true request, 0 for none.
inline Status status_of(Request request) {
  const auto value = reinterpret_cast<std::intptr_t>(request);
  if (value < 0 && value >= kLeastStatus) return static_cast<Status>(value);
  return request == nullptr ? 0 : kInProgress;
}

}  // namespace lanecast::ucx
