// SPDX-License-Identifier: Apache-2.0
// Is this still the process in which an object was made, or one forked from it?
#pragma once

namespace lanecast {

/// A page that the kernel wipes in forked processes: asking is one load, where a process's id is a system call.
class OwnProcess {
 public:
  OwnProcess();
  ~OwnProcess();
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  /// True as well where no such page can be had.
  bool here() const { return !page_ || *page_ != 0; }

 private:
  volatile unsigned char* page_ = nullptr;
};

}  // namespace lanecast
