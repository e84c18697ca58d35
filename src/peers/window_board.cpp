// SPDX-License-Identifier: Apache-2.0
#include "peers/window_board.h"

#include <unistd.h>

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

WindowBoard::WindowBoard(const Bootstrap& members) {
  OwnPage own = agreed(members, [] {
    OwnPage made;
    made.file = make_memory(sizeof(WindowPage));
    made.page = Mapping(made.file, sizeof(WindowPage));
    made.page.reserve(made.page.data(), sizeof(WindowPage));
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
        pages.emplace_back(open_memory_of(all[q].process.id(), all[q].file, all[q].id), sizeof(WindowPage));
    }
    return pages;
  });  // and only now the file is closed
  for (const BoardIntroduction& member : all) processes_.push_back(member.process);
}

bool WindowBoard::has_gone(int member) const {
  // Acquire: pairs with what ~Windows() says; what the member has mapped is mapped no more.
  return of(member).gone.load(std::memory_order_acquire) != 0 || processes_[member].has_ended();
}

}  // namespace lanecast::peers
