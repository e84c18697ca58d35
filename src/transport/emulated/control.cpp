// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/mix.h"

namespace lanecast::emulated {
namespace {

bool send_all(const FileDescriptor& socket, std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  ssize_t sent = 0;
  do sent = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

/// The address of a socket in a folder, whose own path may be longer than an address.
class Door {
 public:
  Door(const std::string& folder, const std::string& name)
      : folder_(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    address_.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + name;
    path.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  bool bind(const FileDescriptor& socket) const { return ::bind(socket.get(), generic(), sizeof address_) == 0; }
  bool connect(const FileDescriptor& socket) const { return ::connect(socket.get(), generic(), sizeof address_) == 0; }

 private:
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }

  FileDescriptor folder_;
  sockaddr_un address_{};
};

/// Names of hosts may be longer than a socket's.
std::string name_of(const std::string& host) { return std::to_string(mix(0, host)); }

FileDescriptor new_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) throw TransportError("socket: " + std::generic_category().message(errno));
  const int bytes = static_cast<int>(2 * kMostRanksOfPort * sizeof(PortAddress));
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return socket;
}

}  // namespace

Reply Reply::refusal(const std::string& why) {
  Reply reply;
  reply.why[why.copy(reply.why.data(), reply.why.size() - 1)] = '\0';
  return reply;
}

bool send(const FileDescriptor& socket, const NicRequest& request, std::span<const PortAddress> ports) {
  const std::array<iovec, 2> parts{{{const_cast<NicRequest*>(&request), sizeof request},
                                    {const_cast<PortAddress*>(ports.data()), ports.size_bytes()}}};
  return send_all(socket, parts);
}

bool send(const FileDescriptor& socket, const Reply& reply) {
  const std::array<iovec, 1> parts{{{const_cast<Reply*>(&reply), sizeof reply}}};
  return send_all(socket, parts);
}

std::optional<Reply> receive_reply(const FileDescriptor& socket, std::chrono::milliseconds most) {
  pollfd ready{socket.get(), POLLIN, 0};
  int count = 0;
  do count = poll(&ready, 1, static_cast<int>(most.count()));
  while (count < 0 && errno == EINTR);
  Reply reply;
  if (count <= 0 || recv(socket.get(), &reply, sizeof reply, 0) != sizeof reply) return {};
  return reply;
}

std::optional<NicRequest> receive_request(const FileDescriptor& socket, std::vector<PortAddress>& ports) {
  NicRequest request;
  ports.resize(kMostRanksOfPort);
  std::array<iovec, 2> parts{{{&request, sizeof request}, {ports.data(), kMostRanksOfPort * sizeof(PortAddress)}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t got = recvmsg(socket.get(), &message, 0);
  if (got < static_cast<ssize_t>(sizeof request)) return {};
  ports.resize((static_cast<std::size_t>(got) - sizeof request) / sizeof(PortAddress));
  return request;
}

FileDescriptor listen_at(const std::string& folder, const std::string& host) {
  try {
    connect_to(folder, host);
  } catch (const UsageError&) {
    stop_listening(folder, host);  // that of a process that was killed, or none
  }
  FileDescriptor socket = new_socket();
  if (!Door(folder, name_of(host)).bind(socket) || listen(socket.get(), SOMAXCONN) != 0)
    throw UsageError("a NIC process of host " + host + " cannot listen in " + folder + ": " +
                     std::generic_category().message(errno));
  return socket;
}

void stop_listening(const std::string& folder, const std::string& host) {
  unlink((folder + "/" + name_of(host)).c_str());
}

FileDescriptor connect_to(const std::string& folder, const std::string& host) {
  FileDescriptor socket = new_socket();
  if (!Door(folder, name_of(host)).connect(socket))
    throw UsageError("LANECAST_GPU_NICS: no NIC process of host " + host + " answers in " + folder + ": " +
                     std::generic_category().message(errno) + "; has it ended, or is this host none of the network's?");
  return socket;
}

bool answers(const std::string& folder, const std::string& host) {
  return Door(folder, name_of(host)).connect(new_socket());
}

bool any_may_answer(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_socket(error) &&
        (Door(folder, entry->path().filename()).connect(new_socket()) || errno != ECONNREFUSED))
      return true;
  return bool(error);
}

}  // namespace lanecast::emulated
