// SPDX-License-Identifier: Apache-2.0
// NCCL without a GPU: ranks are processes that meet in a file, and a collective is one thing that a stream does. A
// communicator blocks nobody: it is in progress until all ranks have come.
#include "device/gpu/nccl.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda.h"
#include "device/gpu/driver.h"
#include "device/gpu/kernels/formats.cuh"
#include "driver_state.h"
#include "patience.h"

namespace gpu_host {
namespace {

constexpr int kSystemError = 2, kInvalidArgument = 4, kInProgress = 7;
constexpr std::size_t kSlotBytes = 1 << 20;
constexpr int kMostRanks = 8;
constexpr std::size_t kPieces = 2 << 20;  // bytes of which mapped memory has a multiple
constexpr int kScaled = 5;                // an operator of the caller's: twice the sum, whatever its scalar

/// Of one rank for another: full until that has taken it.
struct Mailbox {
  std::atomic<int> full;
  alignas(64) char bytes[kSlotBytes];
};

struct Meeting {
  std::atomic<int> joined, arrived;
  std::atomic<long> round;
  alignas(64) char slots[kMostRanks][kSlotBytes];
  Mailbox mail[kMostRanks][kMostRanks];  // from, to
};

struct Message {
  bool sends;
  char* data;
  std::size_t bytes;
  int peer;
};

struct Comm {
  Meeting* meeting = nullptr;
  std::string file;
  int rank = 0, size = 1, device = 0;
  std::atomic<bool> aborted = false;

  ~Comm() {
    munmap(meeting, sizeof(Meeting));
    unlink(file.c_str());
  }
  /// False where it was aborted meanwhile.
  bool together() {
    const long round = meeting->round;
    if (++meeting->arrived == size) {
      meeting->arrived = 0;
      ++meeting->round;
    }
    for (Patience patience; meeting->round == round && !aborted;) patience.wait();
    return !aborted;
  }
};
using Handle = std::shared_ptr<Comm>*;

/// Adds what lies in the ranks' slots, from `from` on, in rank order.
template <class Format>
void add(const Comm& comm, std::size_t from, std::size_t bytes, int op, char* out) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  for (std::size_t at = 0; at < bytes; at += sizeof(Stored)) {
    Value sum{};
    for (int r = 0; r < comm.size; ++r) {
      Stored element;
      std::memcpy(&element, comm.meeting->slots[r] + from + at, sizeof element);
      const Value next = Format::widen(element);
      if (r == 0)
        sum = next;
      else if (op == 1)
        sum *= next;
      else if (op == 2)
        sum = std::max(sum, next);
      else if (op == 3)
        sum = std::min(sum, next);
      else
        sum += next;
    }
    if (op == 4) sum /= static_cast<Value>(comm.size);
    if (op == kScaled) sum *= static_cast<Value>(2);
    const Stored whole = Format::narrow(sum);
    std::memcpy(out + at, &whole, sizeof whole);
  }
}

/// Messages of one communicator, all at once: those between two ranks in order, piece by piece.
void carry(Comm& comm, const std::vector<Message>& messages) {
  std::vector<std::size_t> done(messages.size());
  Patience patience;
  for (bool open = true; open && !comm.aborted;) {
    open = false;
    bool moved = false;
    std::vector<std::pair<bool, int>> behind;  // an earlier one goes there, or comes from there
    for (std::size_t k = 0; k < messages.size(); ++k) {
      const Message& message = messages[k];
      const std::pair way{message.sends, message.peer};
      if (done[k] == message.bytes || std::count(behind.begin(), behind.end(), way) > 0) continue;
      open = true;
      behind.push_back(way);
      Mailbox& box =
          message.sends ? comm.meeting->mail[comm.rank][message.peer] : comm.meeting->mail[message.peer][comm.rank];
      if ((box.full != 0) == message.sends) continue;
      moved = true;
      const std::size_t piece = std::min(kSlotBytes, message.bytes - done[k]);
      if (message.sends)
        std::memcpy(box.bytes, message.data + done[k], piece);
      else
        std::memcpy(message.data + done[k], box.bytes, piece);
      box.full = message.sends ? 1 : 0;
      done[k] += piece;
    }
    if (moved)
      patience.end();
    else if (open)
      patience.wait();
  }
}

constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};  // of ncclDataType_t
void reduce(const Comm& comm, std::size_t from, std::size_t bytes, int dtype, int op, char* out) {
  switch (dtype) {
    case 0:
      return add<lanecast::gpu::Int8>(comm, from, bytes, op, out);
    case 1:
      return add<lanecast::gpu::UInt8>(comm, from, bytes, op, out);
    case 2:
      return add<lanecast::gpu::Int32>(comm, from, bytes, op, out);
    case 3:
      return add<lanecast::gpu::UInt32>(comm, from, bytes, op, out);
    case 4:
      return add<lanecast::gpu::Int64>(comm, from, bytes, op, out);
    case 5:
      return add<lanecast::gpu::UInt64>(comm, from, bytes, op, out);
    case 6:
      return add<lanecast::gpu::Float16>(comm, from, bytes, op, out);
    case 7:
      return add<lanecast::gpu::Float32>(comm, from, bytes, op, out);
    case 8:
      return add<lanecast::gpu::Float64>(comm, from, bytes, op, out);
    default:
      return add<lanecast::gpu::BFloat16>(comm, from, bytes, op, out);
  }
}

/// Piece by piece: each rank shows its own, and takes what `take(comm, from, bytes)` makes of all.
template <class Take>
int collective(Handle handle, Queue* stream, const void* in, std::size_t bytes, Take take) {
  ++state().nccl_calls;
  return enqueue(stream, [comm = *handle, in = static_cast<const char*>(in), bytes, take] {
    for (std::size_t from = 0; from < bytes; from += kSlotBytes) {
      const std::size_t piece = std::min(kSlotBytes, bytes - from);
      if (in != nullptr) std::memcpy(comm->meeting->slots[comm->rank], in + from, piece);
      if (!comm->together()) return;
      take(*comm, from, piece);
      if (!comm->together()) return;
    }
    clock_us += state().nccl_us;
  });
}

int groups = 0;  // open ones; tests have one thread that makes calls

/// As a communicator that blocks: returns when all have come.
int wait_for_all(Handle handle) {
  for (Patience patience; (*handle)->meeting->joined < (*handle)->size;) patience.wait();
  return kOk;
}

std::vector<Handle> made_in_group;
std::vector<std::pair<void**, void*>> windows_in_group;
struct GroupOfMessages {
  std::shared_ptr<Comm> comm;
  Queue* stream = nullptr;
  std::vector<Message> messages;
};
std::vector<GroupOfMessages> sent_in_group;

int enqueue_messages(const std::shared_ptr<Comm>& comm, Queue* stream, std::vector<Message> messages) {
  return enqueue(stream, [comm, messages = std::move(messages)] {
    carry(*comm, messages);
    clock_us += state().nccl_us;
  });
}

int post(const Message& message, Handle handle, Queue* stream) {
  if (groups == 0) return ++state().nccl_calls, enqueue_messages(*handle, stream, {message});
  for (GroupOfMessages& each : sent_in_group)
    if (each.comm == *handle && each.stream == stream) return each.messages.push_back(message), kOk;
  return sent_in_group.push_back({*handle, stream, {message}}), kOk;
}

}  // namespace

extern "C" {

// Of this driver.
int cuCtxGetDevice(int* device);
int cuCtxSynchronize();
int cuMemGetAddressRange_v2(std::uint64_t* base, std::size_t* bytes, std::uint64_t address);
int cuMemCreate(unsigned long long* handle, std::size_t bytes, const lanecast::gpu::PhysicalMemoryKind* kind,
                unsigned long long flags);
int cuMemAddressReserve(std::uint64_t* address, std::size_t bytes, std::size_t alignment, std::uint64_t wanted,
                        unsigned long long flags);
int cuMemAddressFree(std::uint64_t address, std::size_t bytes);
int cuMemMap(std::uint64_t address, std::size_t bytes, std::size_t offset, unsigned long long handle,
             unsigned long long flags);
int cuMemUnmap(std::uint64_t address, std::size_t bytes);
int cuMemSetAccess(std::uint64_t address, std::size_t bytes, const lanecast::gpu::MemoryAccess* wanted,
                   std::size_t count);
int cuMemRelease(unsigned long long handle);

struct UniqueId {
  char bytes[128];
};

/// Communicators that have not been given back.
int gpu_host_nccl_held() { return state().nccl; }
/// Collectives that were enqueued, those of a first call included.
int gpu_host_nccl_calls() { return state().nccl_calls; }

/// GPU_HOST_NCCL_VERSION: another one.
int ncclGetVersion(int* version) {
  const char* const wanted = std::getenv("GPU_HOST_NCCL_VERSION");
  return *version = wanted ? std::atoi(wanted) : 22809, kOk;
}
const char* ncclGetErrorString(int result) { return result == kInvalidArgument ? "invalid argument" : "system error"; }
const char* ncclGetLastError(Handle) { return "as the test has asked for"; }

int ncclGetUniqueId(UniqueId* id) {
  if (const int result = arranged("ncclGetUniqueId")) return result;
  const char* const folder = std::getenv("GPU_HOST_MEETINGS");  // where ranks meet; else in shared memory
  std::strcpy(id->bytes, (std::string(folder ? folder : "/dev/shm") + "/gpu_host_nccl_XXXXXX").c_str());
  const int file = mkstemp(id->bytes);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0) return kSystemError;
  return close(file), kOk;
}
int ncclCommInitRankConfig(Handle* handle, int size, UniqueId id, int rank, const lanecast::gpu::NcclConfig* config) {
  const int file = open(id.bytes, O_RDWR);
  if (file < 0 || size > kMostRanks) return kSystemError;
  auto comm = std::make_shared<Comm>();
  comm->meeting = static_cast<Meeting*>(mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  comm->file = id.bytes;
  comm->rank = rank;
  comm->size = size;
  cuCtxGetDevice(&comm->device);
  *handle = new std::shared_ptr<Comm>(comm);
  if (++comm->meeting->joined == size) unlink(id.bytes);  // a rank that is killed later leaves none
  ++state().nccl;
  if (!config || config->blocking == 0) return kInProgress;
  return wait_for_all(*handle);
}
int ncclCommGetAsyncError(Handle handle, int* result) {
  if (const int asked = arranged("ncclCommGetAsyncError")) return *result = asked, kOk;
  return *result = (*handle)->meeting->joined < (*handle)->size ? kInProgress : static_cast<int>(kOk), kOk;
}
int ncclCommInitRank(Handle* handle, int size, UniqueId id, int rank) {
  const int begun = ncclCommInitRankConfig(handle, size, id, rank, nullptr);
  if (begun != kInProgress) return begun;
  if (groups == 0) return wait_for_all(*handle);
  made_in_group.push_back(*handle);
  return kOk;
}
int ncclCommInitAll(Handle* handles, int count, const int*) {
  for (int k = 0; k < count; ++k) {
    UniqueId id;
    if (const int result = ncclGetUniqueId(&id)) return result;
    ncclCommInitRank(&handles[k], 1, id, 0);
  }
  return kOk;
}
int ncclCommCount(Handle handle, int* count) { return *count = (*handle)->size, kOk; }
int ncclCommUserRank(Handle handle, int* rank) { return *rank = (*handle)->rank, kOk; }
int ncclCommCuDevice(Handle handle, int* device) { return *device = (*handle)->device, kOk; }
int ncclGroupStart() { return ++groups, kOk; }
int ncclGroupEnd() {
  if (--groups > 0) return kOk;
  for (Handle handle : made_in_group) wait_for_all(handle);
  made_in_group.clear();
  for (const auto& [window, buffer] : windows_in_group) *window = buffer;
  windows_in_group.clear();
  if (sent_in_group.empty()) return kOk;
  ++state().nccl_calls;
  std::vector<GroupOfMessages> sent;
  sent.swap(sent_in_group);
  for (GroupOfMessages& each : sent) enqueue_messages(each.comm, each.stream, std::move(each.messages));
  return kOk;
}
/// By color and key, as all ranks show them.
int ncclCommSplit(Handle parent, int color, int key, Handle* part, void*) {
  struct Shown {
    int color, key;
    UniqueId id;
  } mine{color, key, {}};
  if (const int result = ncclGetUniqueId(&mine.id)) return result;
  Comm& comm = **parent;
  std::memcpy(comm.meeting->slots[comm.rank], &mine, sizeof mine);
  comm.together();
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int r = 0; r < comm.size; ++r) {
    Shown theirs;
    std::memcpy(&theirs, comm.meeting->slots[r], sizeof theirs);
    if (theirs.color == color) members.emplace_back(theirs.key, r);
  }
  std::sort(members.begin(), members.end());
  Shown first;
  std::memcpy(&first, comm.meeting->slots[members[0].second], sizeof first);
  comm.together();
  if (members[0].second != comm.rank) unlink(mine.id.bytes);
  *part = nullptr;
  if (color < 0) return unlink(mine.id.bytes), kOk;
  const auto own = std::find(members.begin(), members.end(), std::pair(key, comm.rank)) - members.begin();
  return ncclCommInitRank(part, static_cast<int>(members.size()), first.id, static_cast<int>(own));
}
int ncclRedOpCreatePreMulSum(int* op, void*, int, int, Handle) { return *op = kScaled, kOk; }
int ncclRedOpDestroy(int, Handle) { return kOk; }
/// As NCCL's own: of a range that it maps. GPU_HOST_NCCL_UNSHARED: no other process can map it.
int ncclMemAlloc(void** at, std::size_t bytes) {
  const lanecast::gpu::PhysicalMemoryKind kind{
      .type = 1,
      .handle_types = std::getenv("GPU_HOST_NCCL_UNSHARED") ? 0 : lanecast::gpu::kMemoryByFile,
      .location = {.device = current()->ordinal},
  };
  const std::size_t whole = (bytes + kPieces - 1) / kPieces * kPieces;
  const lanecast::gpu::MemoryAccess access{.location = kind.location};
  unsigned long long handle = 0;
  std::uint64_t address = 0;
  if (cuMemCreate(&handle, whole, &kind, 0) != 0 || cuMemAddressReserve(&address, whole, 0, 0, 0) != 0 ||
      cuMemMap(address, whole, 0, handle, 0) != 0 || cuMemSetAccess(address, whole, &access, 1) != 0 ||
      cuMemRelease(handle) != 0)
    return kSystemError;
  return *at = reinterpret_cast<void*>(address), kOk;
}
int ncclMemFree(void* at) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  std::size_t bytes = 0;
  if (cuCtxSynchronize() != 0 || cuMemGetAddressRange_v2(nullptr, &bytes, address) != 0) return kSystemError;
  return cuMemUnmap(address, bytes) == 0 && cuMemAddressFree(address, bytes) == 0 ? static_cast<int>(kOk)
                                                                                  : kSystemError;
}
int ncclCommRegister(Handle, void* buffer, std::size_t, void** handle) { return *handle = buffer, kOk; }
int ncclCommDeregister(Handle, void*) { return kOk; }
/// The handle of a window is there when the group ends.
int ncclCommWindowRegister(Handle, void* buffer, std::size_t, void** window, int) {
  if (groups > 0)
    windows_in_group.emplace_back(window, buffer);
  else
    *window = buffer;
  return kOk;
}
int ncclCommWindowDeregister(Handle, void*) { return kOk; }
int ncclCommFinalize(Handle) { return kOk; }
int ncclCommDestroy(Handle handle) {
  --state().nccl;
  return delete handle, kOk;  // what a stream still does keeps the rest
}
int ncclCommAbort(Handle handle) {
  (*handle)->aborted = true;
  return ncclCommDestroy(handle);
}

int ncclAllReduce(const void* in, void* out, std::size_t count, int dtype, int op, Handle comm, Queue* stream) {
  return collective(comm, stream, in, count * kSizes[dtype], [=](Comm& c, std::size_t from, std::size_t bytes) {
    reduce(c, 0, bytes, dtype, op, static_cast<char*>(out) + from);
  });
}
int ncclReduce(const void* in, void* out, std::size_t count, int dtype, int op, int root, Handle comm, Queue* stream) {
  return collective(comm, stream, in, count * kSizes[dtype], [=](Comm& c, std::size_t from, std::size_t bytes) {
    if (c.rank == root) reduce(c, 0, bytes, dtype, op, static_cast<char*>(out) + from);
  });
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int dtype, int op, Handle comm, Queue* stream) {
  const std::size_t own = count * kSizes[dtype];
  return collective(comm, stream, in, own * (*comm)->size, [=](Comm& c, std::size_t from, std::size_t bytes) {
    const std::size_t begin = std::max(own * c.rank, from), end = std::min(own * (c.rank + 1), from + bytes);
    if (begin < end) reduce(c, begin - from, end - begin, dtype, op, static_cast<char*>(out) + begin - own * c.rank);
  });
}
int ncclAllGather(const void* in, void* out, std::size_t count, int dtype, Handle comm, Queue* stream) {
  const std::size_t own = count * kSizes[dtype];
  return collective(comm, stream, in, own, [=](Comm& c, std::size_t from, std::size_t bytes) {
    for (int r = 0; r < c.size; ++r) std::memcpy(static_cast<char*>(out) + own * r + from, c.meeting->slots[r], bytes);
  });
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int dtype, int root, Handle comm, Queue* stream) {
  const void* const shown = (*comm)->rank == root ? in : out;
  return collective(comm, stream, shown, count * kSizes[dtype], [=](Comm& c, std::size_t from, std::size_t bytes) {
    std::memcpy(static_cast<char*>(out) + from, c.meeting->slots[root], bytes);
  });
}
int ncclAlltoAll(const void* in, void* out, std::size_t count, int dtype, Handle comm, Queue* stream) {
  const std::size_t own = count * kSizes[dtype];
  return collective(comm, stream, in, own * (*comm)->size, [=](Comm& c, std::size_t from, std::size_t bytes) {
    const std::size_t begin = std::max(own * c.rank, from), end = std::min(own * (c.rank + 1), from + bytes);
    if (begin >= end) return;
    for (int r = 0; r < c.size; ++r)
      std::memcpy(static_cast<char*>(out) + own * r + begin - own * c.rank, c.meeting->slots[r] + begin - from,
                  end - begin);
  });
}
int ncclGather(const void* in, void* out, std::size_t count, int dtype, int root, Handle comm, Queue* stream) {
  const std::size_t own = count * kSizes[dtype];
  return collective(comm, stream, in, own, [=](Comm& c, std::size_t from, std::size_t bytes) {
    for (int r = 0; r < c.size && c.rank == root; ++r)
      std::memcpy(static_cast<char*>(out) + own * r + from, c.meeting->slots[r], bytes);
  });
}
int ncclScatter(const void* in, void* out, std::size_t count, int dtype, int root, Handle comm, Queue* stream) {
  const std::size_t own = count * kSizes[dtype];
  const void* const shown = (*comm)->rank == root ? in : nullptr;
  return collective(comm, stream, shown, own * (*comm)->size, [=](Comm& c, std::size_t from, std::size_t bytes) {
    const std::size_t begin = std::max(own * c.rank, from), end = std::min(own * (c.rank + 1), from + bytes);
    if (begin < end)
      std::memcpy(static_cast<char*>(out) + begin - own * c.rank, c.meeting->slots[root] + begin - from, end - begin);
  });
}
int ncclSend(const void* in, std::size_t count, int dtype, int peer, Handle comm, Queue* stream) {
  return post({true, static_cast<char*>(const_cast<void*>(in)), count * kSizes[dtype], peer}, comm, stream);
}
int ncclRecv(void* out, std::size_t count, int dtype, int peer, Handle comm, Queue* stream) {
  return post({false, static_cast<char*>(out), count * kSizes[dtype], peer}, comm, stream);
}

}  // extern "C"

}  // namespace gpu_host
