// SPDX-License-Identifier: Apache-2.0
#include "base/own_process.h"

#include <sys/mman.h>

#include <cstddef>

namespace lanecast {
namespace {
constexpr std::size_t kBytes = 1;  // of which the kernel makes a page
}

OwnProcess::OwnProcess() {
  void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kBytes, MADV_WIPEONFORK) != 0) {
    munmap(page, kBytes);
    return;
  }
  page_ = static_cast<unsigned char*>(page);
  *page_ = 1;
}

OwnProcess::~OwnProcess() {
  if (page_) munmap(const_cast<unsigned char*>(page_), kBytes);
}

}  // namespace lanecast
