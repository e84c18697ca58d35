// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <dlfcn.h>
#include <mpi.h>
#include <smpi/smpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace lanecast::simulator {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 10;
// Above what SimGrid allocates for itself: actors' stacks, and in collectives numbers and requests of all ranks.
constexpr std::size_t kLargeForSimGrid = std::size_t{4} << 20;

/// Address space over one small file, mapped again and again. SMPI copies no message between such places.
struct Area {
  std::byte* data = nullptr;
  std::size_t bytes = 0;

  bool holds(const void* at) const { return at >= data && at < data + bytes; }
  void reserve(std::size_t wanted) {
    if (bytes >= wanted) return;
    data = static_cast<std::byte*>(smpi_shared_malloc(wanted, __FILE__, __LINE__));
    bytes = wanted;
  }
};

bool pretending = false;
Area buffer;
constexpr int kMostPools = 48;  // each twice the one before: no request is larger
std::array<Area, kMostPools> pools;
std::byte* lowest = reinterpret_cast<std::byte*>(UINTPTR_MAX);
std::byte* highest = nullptr;

}  // namespace

void pretend_memory() { pretending = true; }

std::byte* pretended_buffer(std::size_t bytes) {
  buffer.reserve(bytes);
  return buffer.data;
}

namespace {

void* pretended_array(std::size_t bytes) {
  int pool = 0;
  while ((kLarge << pool) < bytes) ++pool;
  Area& area = pools.at(pool);
  if (area.data == nullptr) {
    area.reserve(kLarge << pool);
    lowest = std::min(lowest, area.data);
    highest = std::max(highest, area.data + area.bytes);
  }
  return area.data;
}

/// Asked for each piece of memory that anybody frees: most lie outside of all pools.
bool is_pretended(const void* at) {
  if (!pretending || at < lowest || at >= highest) return false;
  return std::ranges::any_of(pools, [&](const Area& pool) { return pool.holds(at); });
}

bool holds_nothing(const void* at) { return buffer.holds(at) || is_pretended(at); }

bool is_of_simgrid(const void* code) {
  Dl_info info{};
  return dladdr(code, &info) != 0 && std::strstr(info.dli_fname, "libsimgrid") != nullptr;
}

}  // namespace
}  // namespace lanecast::simulator

extern "C" {
void* __libc_malloc(std::size_t bytes);
void __libc_free(void* memory);

/// SMPI's collectives take their scratch from here, large and for each rank; nobody else's memory may be pretended.
void* malloc(std::size_t bytes) {
  using namespace lanecast::simulator;
  if (bytes < kLargeForSimGrid || !pretending || !is_of_simgrid(__builtin_return_address(0)))
    return __libc_malloc(bytes);
  return pretended_array(bytes);
}

void free(void* memory) {
  if (!lanecast::simulator::is_pretended(memory)) __libc_free(memory);
}
}

// SMPI copies what a rank keeps for itself, which took nearly all of an MPI's all-reduce of 64 MiB: time of ours, none
// of the simulated machine's. Exported, so that SMPI finds this one first.
namespace simgrid::smpi {
class Datatype {
 public:
  static int copy(const void* from, int count, Datatype* type, void* into, int into_count, Datatype* into_type);
};

int Datatype::copy(const void* from, int count, Datatype* type, void* into, int into_count, Datatype* into_type) {
  using lanecast::simulator::holds_nothing;
  if (holds_nothing(from) && holds_nothing(into)) return MPI_SUCCESS;
  static const auto of_smpi =
      reinterpret_cast<decltype(&Datatype::copy)>(dlsym(RTLD_NEXT, "_ZN7simgrid4smpi8Datatype4copyEPKviPS1_PviS4_"));
  return of_smpi(from, count, type, into, into_count, into_type);
}
}  // namespace simgrid::smpi

void* operator new[](std::size_t bytes) {
  using namespace lanecast::simulator;
  if (pretending && bytes >= kLarge && (bytes >= kLargeForSimGrid || !is_of_simgrid(__builtin_return_address(0))))
    return pretended_array(bytes);
  if (void* const memory = std::malloc(std::max<std::size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}

void operator delete[](void* memory) noexcept { std::free(memory); }

void operator delete[](void* memory, std::size_t) noexcept { operator delete[](memory); }
