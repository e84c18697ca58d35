// SPDX-License-Identifier: Apache-2.0
// The protocol of messages between two ranks of different hosts by itself: ranks are threads of this process, a thread
// for each direction stands for the proxies and the network, messages take many pieces through few short slots of
// either memory, and kernels of one channel differ in their blocks and in how many messages they take.
//
// Argument: how many times over. Prints how many messages it has judged; ends with 1 at the first wrong byte.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../block.h"
#include "../kernels.h"
#include "../patience.h"
#include "device/gpu/kernels/message_arguments.h"

using namespace lanecast::gpu;

namespace {

constexpr u32 kCount = 12;        // messages of a channel
constexpr u64 kLeastOnGpu = 100;  // bytes
constexpr u32 kDepth[] = {kCarriedSlots, kStagedSlots};

u8 byte_of(u32 from, u32 n, u64 k) { return static_cast<u8>((k * 7 + from * 31 + n * 101) * 2654435761u >> 16); }
/// Nothing, some bytes, a parcel and more, and more than all slots hold.
u64 length(u32 from, u32 n) {
  const u64 lengths[] = {5000, 0, 1, 64, 99, 20000, 700};
  return lengths[n % 7] == 0 ? 0 : lengths[n % 7] + from;
}
u64 address_of(const void* at) { return reinterpret_cast<u64>(at); }

/// Either end of a channel.
struct Half {
  Half() : flags(1), state(1) {
    for (int h = 0; h < 2; ++h) slots[h].resize(carried_bytes(kDepth[h]));
  }
  std::vector<CarriedFlags> flags;
  std::vector<ChannelState> state;
  std::vector<u8> slots[2];

  ChannelEnd end() const {
    ChannelEnd end{};
    for (int h = 0; h < 2; ++h) {
      end.slots[h] = address_of(slots[h].data());
      end.depth[h] = kDepth[h];
    }
    end.news = address_of(flags[0].arrived);
    end.emptied = address_of(flags[0].emptied);
    end.inlined = address_of(flags[0].inlined);
    end.state = address_of(state.data());
    end.slot_bytes = kCarriedSlotBytes;
    end.least_on_gpu = kLeastOnGpu;
    return end;
  }
  u8* at(int host, u64 first, u64 behind) {
    return slots[host].data() + (first % kDepth[host] + behind) * kCarriedSlotBytes;
  }
};

u64 heard(u64& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }
void tell(u64& word, u64 value) { std::atomic_ref(word).store(value, std::memory_order_release); }

/// Parcel by parcel, from one end to the other.
void carry(Half& here, Half& there) {
  u64 next = 0;
  const auto until = [](const auto& come) {
    for (gpu_host::Patience patience; !come();) patience.wait();
  };
  for (u32 n = 0; n < kCount; ++n) {
    SlotNews& said = here.flags[0].arrived[next % kCarriedSlots];
    u64* const inlined = here.flags[0].inlined[next % kCarriedSlots];
    until([&] { return heard(said.piece) == next + 1 || is_inlined(heard(inlined[0]), next); });
    SlotNews& wanted = there.flags[0].wanted[n % kWanted];
    until([&] { return heard(wanted.piece) == n + 1; });
    const bool is_inline = is_inlined(heard(inlined[0]), next);
    const u64 bytes = is_inline ? static_cast<u32>(inlined[0]) : said.bytes;
    if (wanted.bytes != bytes || is_inline != (bytes <= kInlineBytes)) std::exit(2);
    const MessageArguments message = carried_message(0, bytes);
    const int host = bytes < kLeastOnGpu ? 1 : 0;
    const auto until_empty = [&](u64 piece) {
      for (u64 before = kDepth[host]; before <= kCarriedSlots && before <= piece; before += kDepth[host])
        until([&] { return heard(there.flags[0].emptied[(piece - before) % kCarriedSlots]) > piece - before; });
    };
    if (is_inline) {
      until_empty(next);
      for (u32 k = inline_words(bytes); k-- > 0;) {  // in any order
        until([&] { return is_inlined(heard(inlined[k]), next); });
        tell(there.flags[0].inlined[next % kCarriedSlots][k], inlined[k]);
      }
      tell(here.flags[0].emptied[next % kCarriedSlots], next + 1);
      ++next;
      continue;
    }
    for (u32 k = 0; k < message.pieces;) {
      const ParcelOfPieces parcel = parcel_with(k, message.pieces);
      const u64 first = next;
      for (u64 at = first; at < first + parcel.pieces; ++at) {
        until([&] { return heard(here.flags[0].arrived[at % kCarriedSlots].piece) == at + 1; });
        until_empty(at);
      }
      for (u64 at = first; at < first + parcel.pieces; ++at) {
        std::memcpy(there.at(host, first, at - first), here.at(host, first, at - first), kCarriedSlotBytes);
        tell(here.flags[0].emptied[at % kCarriedSlots], at + 1);
        there.flags[0].arrived[at % kCarriedSlots].bytes = bytes;
        tell(there.flags[0].arrived[at % kCarriedSlots].piece, at + 1);
      }
      next += parcel.pieces;
      k += parcel.pieces;
    }
  }
}

class Rank {
 public:
  Rank(u32 rank, Half& to, Half& from) : rank_(rank), to_(to), from_(from), control_(1), fault_(1) {}

  /// So many messages to the other rank and from it, in one kernel.
  int run(u32 count, u32 blocks) {
    MessageEnds ends{to_.end(), from_.end(), address_of(from_.flags[0].wanted), 1};
    Messages x{};
    x.rank = rank_;
    x.peers = 1;
    x.timeout_ns = 300'000'000'000;
    x.control = address_of(control_.data());
    x.fault = address_of(fault_.data());
    x.peer[0] = {1 - rank_, 0, count, count, blocks, blocks, address_of(&ends)};
    std::vector<std::vector<u8>> data;
    for (const u32 from : {rank_, 1 - rank_})
      for (u32 n = done_; n < done_ + count; ++n) {
        std::vector<u8>& bytes = data.emplace_back(length(from, n) + 1, u8{0xA5});
        for (u64 k = 0; from == rank_ && k + 1 < bytes.size(); ++k) bytes[k] = byte_of(from, n, k);
        x.message[data.size() - 1] = carried_message(address_of(bytes.data()), bytes.size() - 1);
      }
    gpu_host::run_grid({{blocks, 1, 1}, {kMessageThreads, 1, 1}}, gpu_host::kernel("lanecast_messages", &x));
    for (u32 n = 0; n < count; ++n) judge(data[count + n], done_ + n);
    done_ += count;
    return static_cast<int>(count);
  }

 private:
  void judge(const std::vector<u8>& data, u32 n) const {
    for (u64 k = 0; k < data.size(); ++k) {
      const u8 expected = k + 1 == data.size() ? u8{0xA5} : byte_of(1 - rank_, n, k);
      if (data[k] == expected) continue;
      std::fprintf(stderr, "rank %u: byte %llu of message %u is %u, expected %u; fault %u\n", rank_, k, n, data[k],
                   expected, fault_[0].fault);
      std::exit(1);
    }
  }

  u32 rank_, done_ = 0;
  Half &to_, &from_;
  std::vector<Control> control_;
  std::vector<FaultRecord> fault_;
};

/// Each rank its own way through the messages of both channels.
int all_of(Rank rank, u32 r) {
  int judged = 0;
  if (r == 0)
    for (u32 k = 0; k < kCount / 2; ++k) judged += rank.run(2, 1 + k % 2);
  else
    judged += rank.run(kCount, 2);
  return judged;
}

}  // namespace

int main(int, char** arguments) {
  int judged = 0;
  for (int time = 0; time < std::atoi(arguments[1]); ++time) {
    Half ends[4];  // from rank 0 to rank 1, and back
    int found[2] = {};
    std::vector<std::thread> threads;
    threads.emplace_back(carry, std::ref(ends[0]), std::ref(ends[1]));
    threads.emplace_back(carry, std::ref(ends[2]), std::ref(ends[3]));
    threads.emplace_back([&] { found[0] = all_of({0, ends[0], ends[3]}, 0); });
    threads.emplace_back([&] { found[1] = all_of({1, ends[2], ends[1]}, 1); });
    for (std::thread& thread : threads) thread.join();
    judged += found[0] + found[1];
  }
  std::printf("%d messages\n", judged);
}
