// SPDX-License-Identifier: Apache-2.0
// Puts by themselves, without a message or a plan: what a network of emulated NICs moves at best, beside which calls
// are judged, and what its tests hold to the nominal rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/gpu/memory.h"
#include "device/gpu/stream.h"
#include "transport/emulated/own_port.h"

namespace lanecast::emulated {

class PlainPuts {
 public:
  /// Collective. bytes: of the GPU memory that each rank's puts leave from, and of that into which they come.
  PlainPuts(const Bootstrap& bootstrap, const std::string& folder, const std::string& host, int device,
            std::size_t bytes);

  /// From the beginning of this rank's memory into the peer's, at an offset; with a word behind it where `word` is not
  /// 0, which lies in the peer's memory of words, in the place of this rank. Waits for room.
  void put(int peer, std::size_t offset, std::size_t bytes, std::uint32_t word);
  /// Seconds from before the first of so many puts until all are there, with a word behind each.
  double time(int peer, std::size_t bytes, int puts);
  /// Have all puts left their memory? Throws TransportError for a NIC that has failed or ended.
  bool done();

  /// This rank's, of the network.
  std::uint32_t nic() const { return port_.nic(); }

  /// Of this rank's memory: what goes out, and what has come in; and the words, one of each rank.
  void fill(std::span<const std::byte> content);
  std::vector<std::byte> come(std::size_t offset, std::size_t bytes);
  std::uint32_t word_of(int rank);

 private:
  std::vector<std::byte> read(gpu::Address from, std::size_t bytes);

  OwnPort port_;
  std::shared_ptr<gpu::Device> device_;
  gpu::DeviceMemory out_, in_, words_;
  gpu::PinnedMemory staging_;
  gpu::OwnedStream stream_;
  struct Keys {
    RegisteredPlace in, words;
  };
  std::vector<Keys> keys_;  // of each rank
  RegisteredPlace out_key_;
  std::uint64_t looked_ns_ = 0;
};

}  // namespace lanecast::emulated
