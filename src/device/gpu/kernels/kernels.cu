// SPDX-License-Identifier: Apache-2.0
// All kernels by name: what is compiled. The files that it includes are handed to the compiler with it.
#include "device/gpu/kernels/broadcast.cuh"
#include "device/gpu/kernels/chain.cuh"
#include "device/gpu/kernels/direct.cuh"
#include "device/gpu/kernels/exchange.cuh"
#include "device/gpu/kernels/handover.cuh"
#include "device/gpu/kernels/messages.cuh"
#include "device/gpu/kernels/program.cuh"
#include "device/gpu/kernels/pumped_two_shot.cuh"
#include "device/gpu/kernels/summed_chain.cuh"

namespace lanecast::gpu {

extern "C" __global__ void __launch_bounds__(kExchangeThreads, resident(kExchangeThreads, 1))
    lanecast_exchange(const __grid_constant__ Exchange x) {
  exchange<kCopySenders>(x, [](auto& block, Team team, u32 round) { block.take(team, round); });
}

extern "C" __global__ void __launch_bounds__(kTwoShotThreads, resident(kTwoShotThreads, 1))
    lanecast_broadcast(const __grid_constant__ Exchange x) {
  in_two_shots<BlockBroadcast>(x, [](auto& block) { block.spread(); });
}

extern "C" __global__ void __launch_bounds__(kChainThreads, resident(kChainThreads, 1))
    lanecast_chain(const __grid_constant__ Exchange x) {
  chain(x);
}

extern "C" __global__ void __launch_bounds__(kMostRanks) lanecast_barrier(const __grid_constant__ GroupArguments g) {
  barrier(g);
}

extern "C" __global__ void __launch_bounds__(kMostRanks* kDepth) lanecast_handover(const __grid_constant__ Handover h) {
  hand_over(h);
}

// Two to a multiprocessor, so that several channels may wait beside a collective.
extern "C" __global__ void __launch_bounds__(kMessageThreads, resident(kMessageThreads, 2))
    lanecast_messages(const __grid_constant__ Messages x) {
  run_messages(x);
}

extern "C" __global__ void __launch_bounds__(kThreads, resident(kThreads, 1))
    lanecast_copy(const __grid_constant__ ReductionArguments r) {
  multicast_bytes(grid_team(), r.target, static_cast<int>(r.targets), r.source[0], r.bytes);
}

extern "C" __global__ void __launch_bounds__(kMeetingThreads)
    lanecast_meeting(const __grid_constant__ GroupArguments g) {
  Meetings meetings(g);
  meetings.count(1);
  meetings.next();
}

extern "C" __global__ void __launch_bounds__(kDirectThreads, resident(kDirectThreads, 1))
    lanecast_direct(const __grid_constant__ Direct d) {
  direct(d, [](const ReductionArguments& r) {
    multicast_bytes(grid_team(), r.target, static_cast<int>(r.targets), r.source[0], r.bytes);
  });
}

constexpr int kProgramThreads = program_threads(kWarp);

#define LANECAST_KERNELS(Format, name)                                                                               \
  extern "C" __global__ void __launch_bounds__(kExchangeThreads, resident(kExchangeThreads, 1))                      \
      lanecast_exchange_##name(const __grid_constant__ Exchange x) {                                                 \
    exchange<kReduceSenders>(x,                                                                                      \
                             [](auto& block, Team team, u32 round) { block.template reduce<Format>(team, round); }); \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kTwoShotThreads, resident(kTwoShotThreads, 1))                        \
      lanecast_two_shot_##name(const __grid_constant__ Exchange x) {                                                 \
    in_two_shots<ThreadsTwoShot>(x, [](auto& block) { block.template reduce<Format>(); });                           \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kChainThreads, resident(kChainThreads, 1))                            \
      lanecast_summed_chain_##name(const __grid_constant__ Exchange x) {                                             \
    summed_chain<Format>(x);                                                                                         \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kThreads, resident(kThreads, 1))                                      \
      lanecast_reduce_##name(const __grid_constant__ ReductionArguments r) {                                         \
    reduce_bytes<Format>(grid_team(), r);                                                                            \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kDirectThreads, resident(kDirectThreads, 1))                          \
      lanecast_direct_##name(const __grid_constant__ Direct d) {                                                     \
    direct(d, [](const ReductionArguments& r) { reduce_bytes<Format>(grid_team(), r); });                            \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kProgramThreads, resident(kProgramThreads, 1))                        \
      lanecast_program_##name(const __grid_constant__ ProgramRun x) {                                                \
    run_program<Format>(x);                                                                                          \
  }

// Under the names of DType.
LANECAST_KERNELS(Float64, float64)
LANECAST_KERNELS(Float32, float32)
LANECAST_KERNELS(Float16, float16)
LANECAST_KERNELS(BFloat16, bfloat16)
LANECAST_KERNELS(Float8E4M3, float8_e4m3)
LANECAST_KERNELS(Float8E5M2, float8_e5m2)
LANECAST_KERNELS(Int8, int8)
LANECAST_KERNELS(UInt8, uint8)
LANECAST_KERNELS(Int16, int16)
LANECAST_KERNELS(UInt16, uint16)
LANECAST_KERNELS(Int32, int32)
LANECAST_KERNELS(UInt32, uint32)
LANECAST_KERNELS(Int64, int64)
LANECAST_KERNELS(UInt64, uint64)

#ifdef LANECAST_BULK
constexpr int kPumpedChainThreads = pumped_chain_threads(kWarp);
extern "C" __global__ void __launch_bounds__(kPumpedChainThreads, resident(kPumpedChainThreads, 1))
    lanecast_pumped_chain(const __grid_constant__ Exchange x) {
  pumped_chain(x);
}

constexpr u32 kPumpedThreads = pumped_two_shot_threads(kWarp);

#define LANECAST_PUMPED_KERNEL(Format, name)                                                \
  extern "C" __global__ void __launch_bounds__(kPumpedThreads, resident(kPumpedThreads, 1)) \
      lanecast_pumped_two_shot_##name(const __grid_constant__ Exchange x) {                 \
    pumped_two_shot<Format>(x);                                                             \
  }

// Of sums, for what models are trained in: users wait for the compilation of each.
LANECAST_PUMPED_KERNEL(Float32, float32)
LANECAST_PUMPED_KERNEL(Float16, float16)
LANECAST_PUMPED_KERNEL(BFloat16, bfloat16)
#endif

}  // namespace lanecast::gpu
