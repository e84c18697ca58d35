// SPDX-License-Identifier: Apache-2.0
#include "peers/window_files.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "base/error.h"

namespace lanecast::peers {

static_assert(gpu::MemoryPieces::kMost <= HandedFiles::kMostFiles);
static_assert((2 + gpu::MemoryPieces::kMost) * sizeof(std::uint64_t) <= HandedFiles::kMostBytes);

void WindowFiles::hand(const gpu::MemoryPieces& pieces, const WindowTurn& window, std::vector<int>& to) {
  const std::vector<FileDescriptor> files = pieces.files();
  std::vector<std::uint64_t> note{window.number, window.turn};
  std::ranges::copy(pieces.bytes_of_each(), std::back_inserter(note));
  while (!to.empty() && (board_.has_gone(to.back()) || files_.hand(to.back(), std::as_bytes(std::span(note)), files)))
    to.pop_back();
}

void WindowFiles::look() {
  for (HandedFiles::HandedOver& parcel : files_.take()) {
    std::vector<std::uint64_t> note(parcel.note.size() / sizeof(std::uint64_t));
    std::memcpy(note.data(), parcel.note.data(), note.size() * sizeof(std::uint64_t));
    // Fewer files are of no use: they would keep this process at its limit. The next one may find more room.
    if (note.size() < 2 || note[0] >= gpu::kMostWindows || parcel.files.size() != note.size() - 2) continue;
    // Acquire: pairs with Windows::take_turn(). A window that has been closed since is not mapped, nor forgotten.
    if (board_.of(parcel.member).notices[note[0]].turn.load(std::memory_order_acquire) > note[1]) continue;
    handed_[static_cast<std::size_t>(parcel.member)].push_back(
        {{note[0], note[1]}, {note.begin() + 2, note.end()}, std::move(parcel.files)});
  }
}

gpu::OpenedPieces WindowFiles::open(const std::shared_ptr<gpu::Device>& device, int member,
                                    const WindowTurn& window) const {
  const auto& theirs = handed_[static_cast<std::size_t>(member)];
  const auto found = std::ranges::find_if(theirs, [&](const Handed& handed) {
    return handed.window.number == window.number && handed.window.turn == window.turn;
  });
  if (found == theirs.end())
    throw TransportError("its files have not come; this process may have too many open (ulimit -n)");
  return {device, found->bytes_of_each, found->files};
}

void WindowFiles::forget(int member, const WindowTurn& window) {
  std::erase_if(handed_[static_cast<std::size_t>(member)], [&](const Handed& handed) {
    return handed.window.number == window.number && handed.window.turn <= window.turn;
  });
}

}  // namespace lanecast::peers
