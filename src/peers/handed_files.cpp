// SPDX-License-Identifier: Apache-2.0
#include "peers/handed_files.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files_beside.h"

namespace lanecast::peers {
namespace {

constexpr int kKind = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;

std::string reason(int error) { return std::generic_category().message(error); }

/// Until receivers have taken what is on its way: limits are those of the user's files, and of the socket.
bool is_full(int error) { return error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM; }

/// Room for the files beside a note.
struct Rights {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(HandedFiles::kMostFiles * sizeof(int))> room{};
};

std::vector<FileDescriptor> files_of(msghdr& message) {
  std::vector<FileDescriptor> files;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t k = 0; k < count; ++k) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(each) + k * sizeof file, sizeof file);
      files.emplace_back(file);
    }
  }
  return files;
}

/// Who is at the other end, as the kernel knows; -1: not a process of the group and of this user.
int member_at(const FileDescriptor& end, const HostBoard& board) {
  ucred who{};
  socklen_t length = sizeof who;
  const bool known = getsockopt(end.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
  return known && who.uid == geteuid() ? board.member_of(who.pid) : -1;
}

}  // namespace

HandedFiles::HandedFiles(HostBoard& board, int rank) : board_(board) {
  SocketName& name = board.of(rank).desk;
  FileDescriptor made(socket(AF_UNIX, kKind, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  auto* const place = reinterpret_cast<sockaddr*>(&at);
  constexpr socklen_t kBefore = offsetof(sockaddr_un, sun_path);
  if (made.get() < 0 || bind(made.get(), place, kBefore) != 0 || listen(made.get(), SOMAXCONN) != 0) return;
  socklen_t length = sizeof at;
  if (getsockname(made.get(), place, &length) != 0 || length - kBefore > name.text.size()) return;
  name.length = length - kBefore;
  std::memcpy(name.text.data(), at.sun_path, name.length);
  desk_ = std::move(made);
}

bool HandedFiles::hand(int member, std::span<const std::byte> note, std::span<const FileDescriptor> files) const {
  const SocketName& desk = board_.of(member).desk;
  const std::string what = "no file can be handed to rank " + std::to_string(member) + " of the host: ";
  if (desk.length == 0) throw TransportError(what + "a sandbox gives it no Unix socket");
  const FileDescriptor socket_there(socket(AF_UNIX, kKind, 0));
  if (socket_there.get() < 0) throw TransportError(what + reason(errno));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, desk.text.data(), desk.length);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + desk.length);
  if (connect(socket_there.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0) {
    if (is_full(errno)) return false;
    throw TransportError(what + reason(errno) + "; ranks of one host need one network namespace for it");
  }
  // The name may have come to anybody since, and in another network namespace it is anybody's.
  if (member_at(socket_there, board_) != member)
    throw TransportError(what + "another process has its socket's name; ranks of one host need one network namespace");
  iovec text{const_cast<std::byte*>(note.data()), note.size()};
  Rights rights;
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  std::vector<int> numbers;
  std::ranges::transform(files, std::back_inserter(numbers), &FileDescriptor::get);
  put_beside(message, numbers, rights.room.data());
  if (sendmsg(socket_there.get(), &message, MSG_NOSIGNAL) >= 0) return true;
  if (is_full(errno)) return false;
  throw TransportError(what + reason(errno));
}

void HandedFiles::let_visitors_in() {
  for (;;) {
    FileDescriptor visitor(accept4(desk_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (visitor.get() < 0) return;  // nobody, or too many files are open here: the next look finds the visitor
    if (const int member = member_at(visitor, board_); member >= 0) visitors_.push_back({std::move(visitor), member});
  }
}

std::vector<HandedFiles::HandedOver> HandedFiles::take() {
  if (desk_.get() < 0) return {};
  let_visitors_in();
  std::vector<HandedOver> all;
  std::erase_if(visitors_, [&](const Visitor& visitor) {
    HandedOver parcel{visitor.member, std::vector<std::byte>(kMostBytes), {}};
    iovec text{parcel.note.data(), parcel.note.size()};
    Rights rights;
    msghdr message{};
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = rights.room.data();
    message.msg_controllen = rights.room.size();
    const ssize_t got = recvmsg(visitor.socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return errno != EAGAIN && errno != EINTR;
    parcel.files = files_of(message);
    parcel.note.resize(static_cast<std::size_t>(got));
    if (got > 0) all.push_back(std::move(parcel));
    return true;  // whoever hands over says one thing
  });
  return all;
}

}  // namespace lanecast::peers
