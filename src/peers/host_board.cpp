// SPDX-License-Identifier: Apache-2.0
#include "peers/host_board.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/agreed.h"

namespace lanecast::peers {
namespace {

struct BoardIntroduction {
  Process process;
  int file = 0;
  FileId id;
};

struct OwnPage {
  FileDescriptor file;
  Mapping page;
};

}  // namespace

HostBoard::HostBoard(const Bootstrap& members) : rank_(members.rank) {
  OwnPage own = agreed(members, [] {
    OwnPage made;
    made.file = make_memory(sizeof(HostPage));
    made.page = Mapping(made.file, sizeof(HostPage));
    made.page.reserve(made.page.data(), sizeof(HostPage));
    return made;
  });
  const BoardIntroduction mine{Process(getpid()), own.file.get(), id_of(own.file)};
  std::vector<BoardIntroduction> all(members.size);
  members.all_gather(&mine, all.data(), sizeof mine);
  pages_ = agreed(members, [&] {
    std::vector<Mapping> pages;
    for (int q = 0; q < members.size; ++q) {
      if (q == members.rank)
        pages.push_back(std::move(own.page));
      else
        pages.emplace_back(open_memory_of(all[q].process.id(), all[q].file, all[q].id), sizeof(HostPage));
    }
    return pages;
  });  // and only now the file is closed
  for (const BoardIntroduction& member : all) processes_.push_back(member.process);
}

int HostBoard::member_of(int process) const {
  const auto found = std::ranges::find(processes_, process, &Process::id);
  return found == processes_.end() ? -1 : static_cast<int>(found - processes_.begin());
}

bool HostBoard::has_gone(int member) const {
  // Acquire: pairs with what ~Windows() says; what the member has mapped is mapped no more.
  return of(member).gone.load(std::memory_order_acquire) != 0 || processes_[member].has_ended();
}

void HostBoard::give_up() {
  // Release: who reads it finds what this rank has said before, which is why.
  of(rank_).given_up.store(1, std::memory_order_release);
}

bool HostBoard::any_given_up() const {
  for (int q = 0; q < size(); ++q)
    // Acquire: pairs with give_up().
    if (q != rank_ && of(q).given_up.load(std::memory_order_acquire) != 0) return true;
  return false;
}

}  // namespace lanecast::peers
