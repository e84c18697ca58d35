// SPDX-License-Identifier: Apache-2.0
// The protocol of the exchange kernels, and of those in two shots, by threads or pumps and of ranks that differ, by
// itself: ranks are threads of this process, messages take many rounds through few short slots, and calls follow each
// other with no word between the ranks but the kernel's own. And what becomes of ranks beside one that has given up:
// none may end a call with wrong bytes.
//
// Argument: how many times over. Prints how many calls it has judged; ends with 1 at the first wrong byte.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include "../block.h"
#include "../kernels.h"
#include "device/gpu/kernels/primitives.cuh"
#include "ranks.h"

using namespace lanecast::gpu;

namespace {

struct Call {
  u32 blocks;
  u64 slice_bytes;
  u64 bytes;    // of a message; what rank r sends to q is shorter by a few where messages differ
  u32 pattern;  // of bytes, so that no call's are another's
  enum Kind { different, multicast, in_place_sum, two_shots, reduce, broadcast, chain, summed } kind;
};
constexpr Call::Kind kKinds[] = {Call::different, Call::multicast, Call::in_place_sum, Call::two_shots,
                                 Call::reduce,    Call::broadcast, Call::chain,        Call::summed};
/// Which of the calls of its kind it is, so that what differs among these differs in each kind.
u32 turn_of(const Call& call) { return call.pattern / static_cast<u32>(std::size(kKinds)); }

/// Byte k of what `from` sends to `to`.
u8 byte_of(const Call& call, u32 from, u32 to, u64 k) {
  return static_cast<u8>((k * 7 + from * 31 + to * 57 + call.pattern * 101) * 2654435761u >> 16);
}

u64 length(const Call& call, u32 from, u32 to) {
  if (call.kind != Call::different || call.bytes == 0) return call.bytes;
  return call.bytes - (from * 5 + to * 3) % call.bytes;
}

u64 address_of(const void* at) { return reinterpret_cast<u64>(at); }

/// What each rank has made for the others.
struct Memory {
  explicit Memory(u32 ranks) : inbox(inbox_bytes(ranks) / sizeof(u64) + 1), flags(1), control(1), fault(1), begun(1) {}
  std::vector<u64> inbox;
  std::vector<Flags> flags;
  std::vector<Control> control;
  std::vector<FaultRecord> fault;
  std::vector<u32> begun;  // calls, told without order, so that a race that this would hide is seen
};

class Rank {
 public:
  Rank(u32 rank, std::vector<Memory>& memory, u64 timeout_ms = 300'000)
      : rank_(rank), memory_(memory), ranks_(static_cast<u32>(memory.size())), timeout_ns_(timeout_ms * 1'000'000) {}

  bool may_fail = false;

  void run(const Call& call) {
    Exchange x{};
    x.rank = rank_;
    x.ranks = ranks_;
    x.root = kNoRoot;
    x.signature = 0x8000 + call.pattern % 1000;
    x.divisor = 1;
    x.pace_ps = call.pattern % 7 * 1'000'000;
    x.room_bytes = room_bytes(ranks_);
    x.slot_bytes = x.room_bytes / (kSlots * call.blocks) / 16 * 16;
    x.slice_bytes = std::min(call.slice_bytes, x.slot_bytes);
    x.timeout_ns = timeout_ns_;
    x.control = address_of(memory_[rank_].control.data());
    x.fault = address_of(memory_[rank_].fault.data());
    for (u32 q = 0; q < ranks_; ++q) {
      x.inbox[q] = address_of(memory_[q].inbox.data());
      x.flags[q] = address_of(memory_[q].flags.data());
    }
    switch (call.kind) {
      case Call::in_place_sum:
        return sum(call, x);
      case Call::two_shots:
        return two_shots(call, x);
      case Call::reduce:
        x.root = turn_of(call) % ranks_;
        return two_shots(call, x);
      case Call::broadcast:
        return broadcast(call, x);
      case Call::chain:
        return pass_on(call, x);
      case Call::summed:
        return add_and_pass_on(call, x);
      default:
        return move(call, x);
    }
  }

 private:
  void move(const Call& call, Exchange& x) {
    std::vector<std::vector<u8>> out(ranks_), in(ranks_);
    x.multicast = call.kind == Call::multicast;
    x.own_counts = call.pattern % 2;
    for (u32 q = 0; q < ranks_; ++q) {
      const u32 to = x.multicast ? 0 : q, mine = x.multicast ? 0 : rank_;
      out[q].resize(length(call, rank_, to));
      for (u64 k = 0; k < out[q].size(); ++k) out[q][k] = byte_of(call, rank_, to, k);
      in[q].assign(length(call, q, mine) + 1, 0xA5);  // one more, that nobody may write
      x.source[q] = address_of(out[q].data());
      x.send_bytes[q] = out[q].size();
      x.target[q] = address_of(in[q].data());
      x.recv_bytes[q] = in[q].size() - 1;
    }
    launch("lanecast_exchange", exchange_threads(kWarp), call, x);
    for (u32 q = 0; q < ranks_; ++q) {
      for (u64 k = 0; k + 1 < in[q].size(); ++k)
        expect(call, q, k, in[q][k], byte_of(call, q, x.multicast ? 0 : rank_, k));
      expect(call, q, in[q].size() - 1, in[q].back(), 0xA5);
    }
  }

  void sum(const Call& call, Exchange& x) {
    std::vector<u8> data(call.bytes);
    for (u64 k = 0; k < data.size(); ++k) data[k] = byte_of(call, rank_, 0, k);
    x.multicast = 1;
    for (u32 q = 0; q < ranks_; ++q) {
      x.source[q] = address_of(data.data());
      x.send_bytes[q] = x.recv_bytes[q] = data.size();
    }
    x.target[0] = address_of(data.data());
    launch("lanecast_exchange_uint8", exchange_threads(kWarp), call, x);
    expect_sums(call, data);
  }

  /// In place or not, to all or to a root, which has no share then; shares differ, and some may be empty.
  void two_shots(const Call& call, Exchange& x) {
    std::vector<u8> in(call.bytes), out(call.bytes, 0x5A);
    for (u64 k = 0; k < in.size(); ++k) in[k] = byte_of(call, rank_, 0, k);
    const bool gets = x.root == kNoRoot || x.root == rank_;
    const bool in_place = gets && turn_of(call) % 2 != 0;
    const u32 owners = x.root == kNoRoot ? ranks_ : ranks_ - 1;
    u64 longest = call.bytes / owners + turn_of(call) % 6;
    if (turn_of(call) % 3 != 0) longest = (longest + 15) / 16 * 16;  // as pumps need it
    for (u32 q = 0, owner = 0; q < ranks_; ++q) {
      if (q == x.root) continue;
      const u64 begin = std::min(call.bytes, owner * longest);
      x.source[q] = address_of(in.data()) + begin;
      if (gets) x.target[q] = address_of(in_place ? in.data() : out.data()) + begin;
      x.send_bytes[q] = x.recv_bytes[q] =
          (++owner == owners ? call.bytes : std::min(call.bytes, begin + longest)) - begin;
    }
    x.root == kNoRoot&& pumped(call, x)
        ? launch("lanecast_pumped_two_shot_uint8", pumped_two_shot_threads(kWarp), call, x)
        : launch("lanecast_two_shot_uint8", two_shot_threads(kWarp), call, x);
    if (gets) return expect_sums(call, in_place ? in : out);
    for (u64 k = 0; k < out.size(); ++k) expect(call, rank_, k, out[k], 0x5A);
  }

  /// By ranks in two shots: the root has no share, and those of the others differ.
  void broadcast(const Call& call, Exchange& x) {
    x.root = turn_of(call) % ranks_;
    std::vector<u8> data(call.bytes);
    for (u64 k = 0; k < data.size(); ++k) data[k] = rank_ == x.root ? byte_of(call, rank_, 0, k) : 0x5A;
    const u64 longest = call.bytes / (ranks_ - 1) + 1 + call.pattern % 5;
    u64 begin = 0;
    for (u32 q = 0; q < ranks_; ++q) {
      const u64 bytes = q == x.root ? 0 : std::min(call.bytes - begin, longest);
      x.source[q] = x.target[q] = address_of(data.data()) + begin;
      x.recv_bytes[q] = bytes;
      x.send_bytes[q] = rank_ == x.root ? bytes : 0;
      begin += bytes;
    }
    launch("lanecast_broadcast", two_shot_threads(kWarp), call, x);
    for (u64 k = 0; k < data.size(); ++k) expect(call, x.root, k, data[k], byte_of(call, x.root, 0, k));
  }

  /// By ranks along a chain.
  void pass_on(const Call& call, Exchange& x) {
    x.root = turn_of(call) % ranks_;
    const u64 behind = turn_of(call) % 3 == 0 ? 1 : 0;  // where pumps do not work
    std::vector<u8> data(call.bytes + behind + 1, 0x5A);
    for (u64 k = 0; k < call.bytes && rank_ == x.root; ++k) data[behind + k] = byte_of(call, rank_, 0, k);
    x.source[rank_] = x.target[rank_] = address_of(data.data()) + behind;
    x.recv_bytes[rank_] = call.bytes;
    pumped(call, x) ? launch("lanecast_pumped_chain", pumped_chain_threads(kWarp), call, x)
                    : launch("lanecast_chain", chain_threads(kWarp), call, x);
    for (u64 k = 0; k < call.bytes; ++k) expect(call, x.root, k, data[behind + k], byte_of(call, x.root, 0, k));
    expect(call, x.root, call.bytes, data.back(), 0x5A);
  }

  /// By ranks along a chain that ends with the root, in place or not.
  void add_and_pass_on(const Call& call, Exchange& x) {
    x.root = turn_of(call) % ranks_;
    const bool gets = x.root == rank_, in_place = gets && turn_of(call) % 2 != 0;
    std::vector<u8> in(call.bytes), out(call.bytes, 0x5A);
    for (u64 k = 0; k < in.size(); ++k) in[k] = byte_of(call, rank_, 0, k);
    x.source[rank_] = address_of(in.data());
    if (gets) x.target[rank_] = address_of(in_place ? in.data() : out.data());
    x.recv_bytes[rank_] = call.bytes;
    launch("lanecast_summed_chain_uint8", chain_threads(kWarp), call, x);
    if (gets) return expect_sums(call, in_place ? in : out);
    for (u64 k = 0; k < out.size(); ++k) {
      expect(call, rank_, k, in[k], byte_of(call, rank_, 0, k));
      expect(call, rank_, k, out[k], 0x5A);
    }
  }

  void expect_sums(const Call& call, const std::vector<u8>& data) const {
    for (u64 k = 0; k < data.size(); ++k) {
      u8 total = 0;
      for (u32 q = 0; q < ranks_; ++q) total = static_cast<u8>(total + byte_of(call, q, 0, k));
      expect(call, ranks_, k, data[k], total);
    }
  }

  /// Does this rank take the kernel with pumps for it? Others need not.
  bool pumped(const Call& call, const Exchange& x) const {
    u64 places = 0;
    for (u32 q = 0; q < ranks_; ++q) places |= x.source[q] | x.target[q];
    return places % 16 == 0 && (turn_of(call) / 2 + rank_) % 4 != 0;
  }

  void launch(const char* name, u32 threads, const Call& call, Exchange& x) {
    const auto rounds = [&](const u64* bytes) {
      return static_cast<u32>(pieces(*std::max_element(bytes, bytes + x.ranks), call.blocks, x.slice_bytes));
    };
    x.send_rounds = rounds(x.send_bytes);
    x.recv_rounds = rounds(x.recv_bytes);
    begun(rank_).store(++calls_, std::memory_order_relaxed);
    gpu_host::run_grid({{call.blocks, 1, 1}, {threads, 1, 1}}, gpu_host::kernel(name, &x));
    expect_company(call);
  }

  std::atomic_ref<u32> begun(u32 rank) const { return std::atomic_ref(memory_[rank].begun[0]); }

  /// Who ends a call has heard from everybody in it, or slots and words would be written too early in a later one.
  void expect_company(const Call& call) const {
    for (u32 q = 0; q < ranks_; ++q) {
      if (begun(q).load(std::memory_order_relaxed) >= calls_ || (may_fail && memory_[rank_].control[0].failed != 0))
        continue;
      std::fprintf(stderr, "rank %u has ended call %u, of kind %d and %llu bytes, which rank %u has not begun\n", rank_,
                   calls_, call.kind, call.bytes, q);
      std::exit(1);
    }
  }

  void expect(const Call& call, u32 from, u64 k, u8 found, u8 expected) const {
    if (found == expected || (may_fail && memory_[rank_].control[0].failed != 0)) return;
    const FaultRecord& fault = memory_[rank_].fault[0];
    std::fprintf(stderr,
                 "rank %u: byte %llu from %u is %u, expected %u; kind %d, %llu bytes in slices of %llu, %u blocks, "
                 "fault %u peer %u round %u\n",
                 rank_, k, from, found, expected, call.kind, call.bytes, call.slice_bytes, call.blocks, fault.fault,
                 fault.peer, fault.round);
    std::exit(1);
  }

  u32 rank_;
  std::vector<Memory>& memory_;
  u32 ranks_;
  u64 timeout_ns_;
  u32 calls_ = 0;
};

std::vector<Call> calls() {
  std::vector<Call> all;
  for (const u64 bytes : {0, 5, 100, 479, 992})
    for (const u64 slice : {16, 128})
      for (const u32 blocks : {1, 4, 2, 3})  // so that slots of another length are written anew in each call
        for (const Call::Kind kind : kKinds)
          all.push_back({blocks, slice, bytes, static_cast<u32>(all.size() + 1), kind});
  return all;
}

/// The first of three ranks is told to give up before the others come. Those may end in a fault as well, and in a right
/// result.
int beside_one_that_gives_up(const Call& call) {
  return run_ranks<Memory>(3, [&](u32 r, std::vector<Memory>& memory) {
    Rank rank(r, memory, /*timeout_ms=*/100);
    rank.may_fail = true;
    const HostClock clock(memory[r].fault[0]);
    if (r == 0) memory[0].fault[0].poison = 1;
    while (r != 0 && std::atomic_ref(memory[0].control[0].failed).load() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    rank.run(call);
    return r == 0 ? 1 : 0;
  });
}

}  // namespace

int main(int, char** arguments) {
  int judged = 0;
  for (int time = 0; time < std::atoi(arguments[1]); ++time)
    for (const u32 ranks : {2u, 3u, 4u})
      judged += run_ranks<Memory>(ranks, [](u32 r, std::vector<Memory>& memory) {
        Rank rank(r, memory);
        const std::vector<Call> all = calls();
        for (const Call& call : all) rank.run(call);
        return r == 0 ? static_cast<int>(all.size()) : 0;  // each is one call of all ranks
      });
  for (const u64 bytes : {100, 992})
    for (const u32 blocks : {1, 2})  // and out of place or in place
      for (const Call::Kind kind : kKinds)
        judged += beside_one_that_gives_up(
            {blocks, 16, bytes, static_cast<u32>(std::size(kKinds)) * blocks + static_cast<u32>(kind), kind});
  std::printf("%d calls\n", judged);
}
