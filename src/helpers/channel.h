// SPDX-License-Identifier: Apache-2.0
// What a leader and its helper say to each other: short JSON over a socket, with a file beside some messages.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "base/file_descriptor.h"

namespace lanecast::helpers {

/// The leader's side; python/lanecast/helpers/channel.py is the other. One thread sends, one receives.
class Channel {
 public:
  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Ours and the helper's. Throws TransportError.
  static std::pair<FileDescriptor, FileDescriptor> make_pair();

  /// False: the other side has closed it, or has ended. file: −1 for none; it stays the caller's.
  bool send(const nlohmann::json& message, int file = -1);
  /// Is there an answer, or nobody any more to give one, within so many milliseconds?
  bool has_answer(int span_ms) const;
  /// Blocks; null once the other side has closed it.
  nlohmann::json receive();
  /// The other side hears at once that nothing comes any more, and ends; what it says until then can be received. Any
  /// thread.
  void end();

 private:
  bool receive(char* into, std::size_t bytes);

  FileDescriptor socket_;
};

}  // namespace lanecast::helpers
