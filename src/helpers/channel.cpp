// SPDX-License-Identifier: Apache-2.0
#include "helpers/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files_beside.h"

namespace lanecast::helpers {
namespace {

constexpr std::size_t kHead = 5;  // bytes of the text in 32 bits, then files beside it in 8

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool send_with_file(int socket, std::string_view head, int file) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof file)> room{};
  iovec text{const_cast<char*>(head.data()), head.size()};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  put_beside(message, {&file, 1}, room.data());
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent > 0 && send_all(socket, head.substr(static_cast<std::size_t>(sent)));
}

}  // namespace

std::pair<FileDescriptor, FileDescriptor> Channel::make_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw TransportError(std::string("processes_per_gpu: no socket to a helper can be had: ") + std::strerror(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool Channel::send(const nlohmann::json& message, int file) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string head(kHead, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  head[sizeof length] = static_cast<char>(file >= 0 ? 1 : 0);
  if (file < 0) return send_all(socket_.get(), head + text);
  return send_with_file(socket_.get(), head, file) && send_all(socket_.get(), text);
}

bool Channel::has_answer(int span_ms) const {
  pollfd looked{socket_.get(), POLLIN, 0};
  return poll(&looked, 1, span_ms) > 0;
}

bool Channel::receive(char* into, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket_.get(), into, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

nlohmann::json Channel::receive() {
  std::array<char, kHead> head{};
  if (!receive(head.data(), head.size())) return {};
  std::uint32_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  std::string text(length, '\0');
  if (!receive(text.data(), text.size())) return {};
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

void Channel::end() { shutdown(socket_.get(), SHUT_WR); }

}  // namespace lanecast::helpers
