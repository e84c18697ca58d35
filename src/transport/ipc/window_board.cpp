// SPDX-License-Identifier: Apache-2.0
#include "transport/ipc/window_board.h"

#include <unistd.h>

#include <utility>

#include "base/agreed.h"

namespace lanecast::ipc {
namespace {

struct Introduction {
  int process = 0, file = 0;
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
    made.file = reserve_memory(sizeof(WindowPage));
    made.page = Mapping(made.file, 0, sizeof(WindowPage));
    return made;
  });
  const Introduction mine{getpid(), own.file.get(), id_of(own.file)};
  std::vector<Introduction> all(members.size);
  members.all_gather(&mine, all.data(), sizeof mine);
  pages_ = agreed(members, [&] {
    std::vector<Mapping> pages;
    for (int q = 0; q < members.size; ++q) {
      if (q == members.rank)
        pages.push_back(std::move(own.page));
      else
        pages.emplace_back(open_memory_of(all[q].process, all[q].file, all[q].id), 0, sizeof(WindowPage));
    }
    return pages;
  });  // and only now the file is closed
}

}  // namespace lanecast::ipc
