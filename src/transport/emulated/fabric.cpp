// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/fabric.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cmath>
#include <ctime>
#include <system_error>

#include "base/error.h"

namespace lanecast::emulated {
namespace {

std::string file_of(const std::string& folder) { return folder + "/fabric"; }

[[noreturn]] void refuse(const std::string& file, int error) {
  throw UsageError("LANECAST_GPU_NICS: " + file + ": " + std::generic_category().message(error) +
                   "; it names the folder of an emulated network that runs, see lanecast cluster run --gpu-nics");
}

}  // namespace

void Fabric::create(const std::string& folder, const FabricShape& shape) {
  if (shape.hosts < 1 || shape.hosts > static_cast<int>(kMostHosts))
    throw UsageError("hosts: " + std::to_string(shape.hosts) + " is not between 1 and " + std::to_string(kMostHosts));
  if (shape.nics < 1 || shape.nics > static_cast<int>(kMostNics))
    throw UsageError("GPU NICs of a host: " + std::to_string(shape.nics) + " is not between 1 and " +
                     std::to_string(kMostNics));
  if (!(shape.bytes_per_s >= 1e6 && shape.bytes_per_s <= 1e12))
    throw UsageError("rate of GPU NICs: expected 1MBps to 1000GBps");
  if (!(shape.latency_s >= 0 && shape.latency_s <= 1)) throw UsageError("latency of GPU NICs: expected 0us to 1s");
  const std::string file = file_of(folder);
  const FileDescriptor opened(open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (opened.get() < 0 || ftruncate(opened.get(), sizeof(FabricState)) != 0) refuse(file, errno);
  const Mapping memory(opened, sizeof(FabricState));
  auto& state = *reinterpret_cast<FabricState*>(memory.data());
  state.hosts = static_cast<std::uint32_t>(shape.hosts);
  state.nics = static_cast<std::uint32_t>(shape.nics);
  state.bytes_per_s = shape.bytes_per_s;
  state.latency_ns = static_cast<std::uint64_t>(std::llround(shape.latency_s * 1e9));
  state.magic = FabricState::kMagic;
}

Fabric::Fabric(const std::string& folder) {
  const std::string file = file_of(folder);
  const FileDescriptor opened(open(file.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status{};
  if (opened.get() < 0 || fstat(opened.get(), &status) != 0) refuse(file, errno);
  if (status.st_size != sizeof(FabricState)) refuse(file, EINVAL);
  memory_ = Mapping(opened, sizeof(FabricState));
  if (state().magic != FabricState::kMagic) refuse(file, EINVAL);
}

std::string Fabric::name_of(std::uint32_t index) const {
  return "NIC " + std::to_string(index % state().nics) + " of host " + std::to_string(index / state().nics);
}

void ring(NicState& nic) {
  // Sequentially consistent on both words, with sleep(): either its thread sees the ring, or this sees that it sleeps.
  nic.rings.fetch_add(1, std::memory_order_seq_cst);
  if (nic.sleeps.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&nic.rings), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep(NicState& nic, std::uint32_t rings, std::chrono::nanoseconds most) {
  nic.sleeps.store(1, std::memory_order_seq_cst);
  if (nic.rings.load(std::memory_order_seq_cst) == rings) {
    const timespec time{.tv_sec = most.count() / 1000000000, .tv_nsec = most.count() % 1000000000};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&nic.rings), FUTEX_WAIT, rings, &time, nullptr, 0);
  }
  nic.sleeps.store(0, std::memory_order_relaxed);  // who rings in vain costs a system call
}

}  // namespace lanecast::emulated
