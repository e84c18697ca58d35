// SPDX-License-Identifier: Apache-2.0
#include "peers/windows.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/agreed.h"
#include "base/error.h"
#include "base/running_time.h"
#include "device/gpu/beside_captures.h"
#include "peers/lent_memory.h"

namespace lanecast::peers {

Windows::Windows(std::shared_ptr<gpu::Device> device, const Bootstrap& members, HostBoard& board)
    : device_(std::move(device)),
      rank_(members.rank),
      board_(board),
      files_(board, members.rank),
      table_(agreed(members, [&] { return Table{{device_, sizeof(gpu::WindowTable)}, gpu::OwnedStream(device_)}; })),
      own_(gpu::kMostWindows),
      news_(members.size),
      opened_(members.size) {
  for (auto& windows : opened_) windows.resize(gpu::kMostWindows);
}

void Windows::copy(gpu::Address to, gpu::Address from, std::size_t bytes) const {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  device_->check(device_->driver().copy(to, from, bytes, table_.copies.get()), "cuMemcpyAsync");
  device_->check(device_->driver().cuStreamSynchronize(table_.copies.get()), "cuStreamSynchronize");
}

std::uint64_t Windows::taken() const {
  gpu::u64 taken = 0;
  copy(gpu::address_of(&taken), table() + offsetof(gpu::WindowTable, taken), sizeof taken);
  return taken;
}

void Windows::take_turn(std::size_t number, int turns) {
  HostPage& page = board_.of(rank_);
  own_[number].turn += turns;
  // Release, both: whoever sees the news sees the turn, and who sees the turn the rest of the notice.
  page.notices[number].turn.store(own_[number].turn, std::memory_order_release);
  page.news.fetch_add(1, std::memory_order_release);
}

bool Windows::open(std::shared_ptr<WindowMemory> memory) {
  if (memory->device().ordinal() != device_->ordinal()) return false;
  const auto free = std::ranges::find(own_, nullptr, &OwnWindows::memory);
  if (free == own_.end()) return false;
  for (int q = 0; memory->pieces() && q < board_.size(); ++q)
    if (q != rank_) free->to_hand.push_back(q);
  free->memory = std::move(memory);
  ++used_;
  announce(free - own_.begin());
  return true;
}

void Windows::announce(std::size_t number) {
  OwnWindows& own = own_[number];
  const gpu::MemoryPieces* const pieces = own.memory->pieces();
  if (!own.to_hand.empty()) {
    try {
      files_.hand(*pieces, {number, own.turn + 1}, own.to_hand);
    } catch (...) {
      give_up(number);
      throw;
    }
    if (!own.to_hand.empty()) return take_turn(number, 0);  // whoever has got files takes them, which makes room
  }
  WindowNotice& notice = board_.of(rank_).notices[number];
  notice.handle = own.memory->handle();
  notice.pieces = pieces ? pieces->bytes_of_each().size() : 0;
  notice.offset = own.memory->offset();
  take_turn(number);
}

void Windows::give_up(std::size_t number) {
  own_[number].to_hand.clear();
  take_turn(number, 2);
}

bool Windows::all_follow(std::size_t number) const {
  for (int q = 0; q < board_.size(); ++q)
    // Acquire: what a member has put into its table before is there for the calls that this answer allows.
    if (q != rank_ && board_.of(q).followed[rank_][number].load(std::memory_order_acquire) != own_[number].turn)
      return false;
  return true;
}

void Windows::look_at_own() {
  for (std::size_t number = 0; number < own_.size(); ++number) {
    OwnWindows& own = own_[number];
    if (!own.memory) continue;
    const bool open = own.turn % 2 == 1;
    if (!own.to_hand.empty() && own.memory->retired()) {
      give_up(number);
    } else if (!own.to_hand.empty()) {
      try {
        announce(number);
      } catch (const Error& error) {
        std::fprintf(stderr, "lanecast: registered memory is copied: %s\n", error.what());
      }
    } else if (open && own.memory->retired()) {
      own.usable = false;
      take_turn(number);
    } else if (open) {
      own.usable = own.usable || all_follow(number);
    } else if (all_follow(number)) {
      own.memory.reset();
      --used_;
    }
  }
}

gpu::Address Windows::map(Opened& opened, int member, std::size_t number, std::uint64_t turn) {
  const WindowNotice& notice = board_.of(member).notices[number];
  if (notice.pieces != 0) files_.look();  // once more: the files came before the turn, and perhaps after the last look
  const gpu::Address base =
      notice.pieces == 0 ? opened.emplace<gpu::OpenedMemory>(device_, notice.handle).address()
                         : opened.emplace<gpu::OpenedPieces>(files_.open(device_, member, {number, turn})).address();
  return base + notice.offset;
}

void Windows::follow(int member) {
  const HostPage& theirs = board_.of(member);
  // Acquire: pairs with take_turn(); and before the notices, so that none is missed.
  const std::uint64_t news = theirs.news.load(std::memory_order_acquire);
  if (news == news_[member]) return;
  news_[member] = news;
  files_.look();  // also of windows that nobody hears of yet: it makes room for the files of others
  const gpu::Device::Current current(*device_);
  for (std::size_t number = 0; number < own_.size(); ++number) {
    std::atomic<std::uint64_t>& followed = board_.of(rank_).followed[member][number];
    // Acquire: pairs with take_turn().
    const std::uint64_t turn = theirs.notices[number].turn.load(std::memory_order_acquire);
    if (turn == followed.load(std::memory_order_relaxed)) continue;  // nobody else writes it
    Opened& opened = opened_[member][number];
    opened = std::monostate();
    gpu::u64 at = 0;
    try {
      if (turn % 2 == 1) at = map(opened, member, number, turn);
    } catch (const Error& error) {  // never followed: the member never offers it, and calls go through slots
      std::fprintf(stderr, "lanecast: rank %d's memory cannot be mapped: %s\n", member, error.what());
      continue;
    }
    files_.forget(member, {number, turn});
    // The kernels of a call that offers the window come after what the member hears here.
    const std::size_t place = member * sizeof(gpu::WindowTable::at[0]) + number * sizeof at;
    copy(table() + offsetof(gpu::WindowTable, at) + place, gpu::address_of(&at), sizeof at);
    followed.store(turn, std::memory_order_release);  // pairs with all_follow()
  }
}

void Windows::look() {
  for (int q = 0; q < board_.size(); ++q)
    if (q != rank_) follow(q);
  if (used_ != 0) look_at_own();
}

gpu::u64 Windows::place(const void* begin, std::size_t bytes) const {
  const auto at = reinterpret_cast<gpu::Address>(begin);
  std::size_t left = used_;
  for (std::size_t number = 0; left != 0; ++number) {
    const OwnWindows& own = own_[number];
    if (!own.memory) continue;
    --left;
    const gpu::Address start = own.memory->begin();
    if (own.usable && at >= start && at + bytes <= start + own.memory->bytes() && !own.memory->retired())
      return (number + 1) << gpu::kWindowShift | (at - start);
  }
  return 0;
}

bool Windows::all_have_gone() const {
  for (int q = 0; q < board_.size(); ++q)
    if (q != rank_ && !board_.has_gone(q)) return false;
  return true;
}

Windows::~Windows() {
  const gpu::Device::Current current(*device_);
  device_->driver().cuCtxSynchronize();  // kernels may be at work there
  opened_.clear();
  // Release: pairs with HostBoard::has_gone().
  board_.of(rank_).gone.store(1, std::memory_order_release);
  Countdown left(kGoodbye);
  while (used_ != 0 && !all_have_gone()) {
    if (left.over()) {
      leave_mapped();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Windows::leave_mapped() {
  for (OwnWindows& own : own_)
    if (own.memory) own.memory->leave_mapped(own.memory);
}

}  // namespace lanecast::peers
