// SPDX-License-Identifier: Apache-2.0
// Puts that are joined to the sums that they put, between others to the same peer, by themselves: two ranks are threads
// of this process, launches follow each other with no word between the ranks but the kernel's own, and threads stop at
// random where they move data and where they say what is done. So what one warp says must not overtake another's.
//
// Argument: how many times over. Prints how many launches it has judged; ends with 1 at the first wrong element, where
// a rank waits in vain, and where no sum was ever written into a ring.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../block.h"
#include "../kernels.h"
#include "device/gpu/kernels/program_arguments.h"
#include "ranks.h"

using namespace lanecast::gpu;

namespace {

constexpr u64 kElements = 96, kBytes = kElements * sizeof(int);  // of a part
constexpr u32 kLaunches = 40, kParts = 3, kWarp = 32;            // the CPU's warps, as in its primitives.cuh

std::atomic<const ProgramFlags*> flags_of[2];
std::atomic<int> joined;

/// Of what has been put? Then the second of the takers' two warps says it in the place of a put.
bool says_put(const void* word) {
  for (const auto& flags : flags_of)
    if (const auto* first = flags.load(); word >= first && word < static_cast<const void*>(&first->emptied))
      return true;
  return false;
}

/// Stops one thread in eight for some turns of the others', longer where it is about to say something.
void dawdle(const void* word) {
  static std::atomic<u32> calls;
  const u32 state = calls.fetch_add(1) * 2654435761u >> 8;
  if (says_put(word) && gpu_host::thread_index.x >= kPutters + kTakers + 3 * kWarp) ++joined;
  if (state % 8 == 0)
    for (u32 turns = state / 8 % (word ? 512 : 64); turns > 0; --turns) gpu_host::give_way();
}

u64 address_of(const void* at) { return reinterpret_cast<u64>(at); }

int element_of(u32 rank, u32 launch, u64 k) { return static_cast<int>((rank + 1) * 1000003 + launch * 1009 + k * 7); }

/// What each rank has made for the other.
struct Memory {
  explicit Memory(u32 ranks) : ring(rings_bytes(ranks)), flags(1), state(1), control(1), fault(1) {}
  std::vector<u8> ring;
  std::vector<ProgramFlags> flags;
  std::vector<ProgramControl> state;
  std::vector<Control> control;
  std::vector<FaultRecord> fault;
};

/// Puts a part of the input, then the sum of another one, then a third; takes likewise.
struct Image {
  Instruction instructions[6];
  Operand operands[7];

  explicit Image(u32 rank) : instructions{}, operands{} {
    const u32 peer = 1 - rank;
    const Space spaces[7] = {Space::in, Space::out, Space::in, Space::out, Space::in, Space::out, Space::out};
    const u64 parts[7] = {peer, rank, 2, rank, rank, peer, 2};
    for (u32 k = 0; k < 7; ++k) {
      operands[k].base = parts[k] * kBytes;
      operands[k].bytes = operands[k].stride = kBytes;
      operands[k].space = spaces[k];
      operands[k].to = operands[k].den = 1;
    }
    const Operation operations[6] = {Operation::put,         Operation::put,  Operation::put,
                                     Operation::take_reduce, Operation::take, Operation::take};
    const u32 firsts[6] = {0, 1, 2, 3, 5, 6};
    for (u32 k = 0; k < 6; ++k) {
      Instruction& one = instructions[k];
      one.operation = operations[k];
      one.ends = one.runs = 1;
      one.peer = static_cast<u16>(peer);
      one.sources = k == 3 ? 2 : 1;
      one.operands = firsts[k];
      one.divisor = 1;
    }
    instructions[1].needs = 1;
    instructions[1].joined = instructions[3].joined = 1;
  }
};

/// All launches of a rank: how many were right.
int run(u32 rank, std::vector<Memory>& memory) {
  const u32 peer = 1 - rank;
  const Image image(rank);
  std::vector<int> in(kParts * kElements), out(kParts * kElements);
  ProgramRun x{};
  x.rank = rank;
  x.ranks = 2;
  x.chunks = x.ticks = x.generations = x.channels = 1;
  x.puts = x.takes = 3;
  x.operands = 7;
  x.signature = 7;
  x.timeout_ns = 300'000'000'000;
  x.program = address_of(&image);
  x.base[0] = address_of(in.data());
  x.base[1] = address_of(out.data());
  x.ring_bytes = ring_bytes(2);
  x.ring_to[peer] = address_of(memory[peer].ring.data());
  x.ring_from[peer] = address_of(memory[rank].ring.data());
  for (u32 r = 0; r < 2; ++r) x.flags[r] = address_of(memory[r].flags.data());
  flags_of[rank] = memory[rank].flags.data();
  x.program_control = address_of(memory[rank].state.data());
  x.control = address_of(memory[rank].control.data());
  x.fault = address_of(memory[rank].fault.data());
  for (u32 launch = 0; launch < kLaunches; ++launch) {
    for (u64 k = 0; k < in.size(); ++k) in[k] = element_of(rank, launch, k);
    std::memset(out.data(), 0xA5, out.size() * sizeof(int));
    gpu_host::run_grid({{1, 1, 1}, {static_cast<unsigned>(program_threads(kWarp)), 1, 1}},
                       gpu_host::kernel("lanecast_program_int32", &x));
    for (u64 k = 0; k < out.size(); ++k) {
      const int theirs = element_of(peer, launch, k);
      const int expected = k < 2 * kElements ? element_of(rank, launch, k) + theirs : theirs;
      if (out[k] == expected) continue;
      std::fprintf(stderr, "rank %u, launch %u: element %llu is %d, expected %d; fault %u\n", rank, launch, k, out[k],
                   expected, memory[rank].fault[0].fault);
      std::_Exit(1);
    }
  }
  return kLaunches;
}

}  // namespace

int main(int, char** arguments) {
  gpu_host::at_word = dawdle;
  int judged = 0;
  for (int time = 0; time < std::atoi(arguments[1]); ++time)
    judged += run_ranks<Memory>(2, [](u32 r, std::vector<Memory>& memory) {
      const HostClock clock(memory[r].fault[0]);
      return run(r, memory);
    });
  if (joined == 0) {
    std::fputs("no sum was written into a ring\n", stderr);
    return 1;
  }
  std::printf("%d launches\n", judged);
}
