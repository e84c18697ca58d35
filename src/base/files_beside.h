// SPDX-License-Identifier: Apache-2.0
// Open files beside a message to a Unix socket.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <span>

namespace lanecast {

/// Puts them beside the message; they stay the caller's. room: CMSG_SPACE() of their bytes, zeroed, aligned as cmsghdr.
inline void put_beside(msghdr& message, std::span<const int> files, void* room) {
  message.msg_control = room;
  message.msg_controllen = CMSG_SPACE(files.size_bytes());
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(files.size_bytes());
  std::memcpy(CMSG_DATA(head), files.data(), files.size_bytes());
}

}  // namespace lanecast
