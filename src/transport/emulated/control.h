// SPDX-License-Identifier: Apache-2.0
// What a rank asks of its NIC process, over a socket that both keep open: its end is the end of the port, or of the
// NIC.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/emulated/port.h"

namespace lanecast::emulated {

struct NicRequest {
  enum class What : std::uint32_t {
    attach,  // here is my port
    meet,    // here are those of all ranks, which follow
    open,    // a key of my GPU memory: open it now, so that what is wrong with it is known now
  };
  What what{};
  std::int32_t rank = 0, ranks = 0;
  PortAddress port;
  std::uint32_t key = 0;
};

struct Reply {
  static constexpr int kNoGpus = -1;
  bool good = false;
  std::uint32_t nic = 0;        // to attach: of the network
  std::int32_t pid = 0;         // likewise: the NIC process
  std::int32_t gpus = kNoGpus;  // likewise: a GpuVendor, whose memory it can reach
  std::array<char, 400> why{};  // it is not good

  static Reply refusal(const std::string& why);
};

/// The largest request: all ports.
inline constexpr std::size_t kMostRanksOfPort = 1024;

/// Sends the request with what follows. False where the other end has gone.
bool send(const FileDescriptor& socket, const NicRequest& request, std::span<const PortAddress> ports = {});
bool send(const FileDescriptor& socket, const Reply& reply);
/// Nothing where the other end has gone or is silent for so long.
std::optional<Reply> receive_reply(const FileDescriptor& socket, std::chrono::milliseconds most);
/// Nothing where the other end has gone.
std::optional<NicRequest> receive_request(const FileDescriptor& socket, std::vector<PortAddress>& ports);

/// Of the NIC process of a host, in the folder of the network. Throws UsageError.
FileDescriptor listen_at(const std::string& folder, const std::string& host);
void stop_listening(const std::string& folder, const std::string& host);
/// Of a rank. Throws UsageError where nobody listens.
FileDescriptor connect_to(const std::string& folder, const std::string& host);
/// Does the NIC process of that host take ranks?
bool answers(const std::string& folder, const std::string& host);
/// Does any in there? True also where that cannot be told.
bool any_may_answer(const std::string& folder);

}  // namespace lanecast::emulated
