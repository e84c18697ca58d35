// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <dlfcn.h>

#include "cuda.h"
#include "device/gpu/kernels/kernels.cu"

// GPUs have them for floats alone, but of these each wrong byte shows.
namespace lanecast::gpu {
LANECAST_PUMPED_KERNEL(UInt8, uint8)
}  // namespace lanecast::gpu

namespace gpu_host {
namespace {

template <class Argument>
std::function<void()> bind(void* address, const void* argument) {
  const auto run = reinterpret_cast<void (*)(Argument)>(address);
  return [run, copy = *static_cast<const Argument*>(argument)] { run(copy); };
}

}  // namespace

std::function<void()> kernel(const std::string& name, const void* argument) {
  using namespace lanecast::gpu;
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&kernel), &here);
  void* address = dlsym(dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name.c_str());
  if (address == nullptr || !name.starts_with("lanecast_")) return {};
  if (name.starts_with("lanecast_exchange") || name.starts_with("lanecast_two_shot") ||
      name.starts_with("lanecast_summed_chain") || name.starts_with("lanecast_pumped") ||
      name == "lanecast_broadcast" || name == "lanecast_chain")
    return bind<Exchange>(address, argument);
  if (name.starts_with("lanecast_program")) return bind<ProgramRun>(address, argument);
  if (name == "lanecast_messages") return bind<Messages>(address, argument);
  if (name.starts_with("lanecast_direct")) return bind<Direct>(address, argument);
  if (name == "lanecast_barrier" || name == "lanecast_meeting") return bind<GroupArguments>(address, argument);
  if (name == "lanecast_handover") return bind<Handover>(address, argument);
  return bind<ReductionArguments>(address, argument);
}

}  // namespace gpu_host
