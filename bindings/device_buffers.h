// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU's tensors, as calls take it.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lanecast {

struct ExchangeApi;

/// Asked for a device's current stream, also when the tensor that it was found by has gone.
struct CurrentStream {
  const ExchangeApi* exchange = nullptr;  // of the tensor's package
  nanobind::dlpack::device device{};

  std::uintptr_t operator()() const;
};

/// Contiguous memory of the caller's on a GPU, with what keeps it and knows its stream.
struct DeviceBuffer {
  std::uintptr_t address;
  int dtype;
  std::size_t size;  // elements
  int device;        // ordinal of the driver's, as torch's index; −1 where nobody says
  nanobind::object owner;
  CurrentStream streams;
  nanobind::object asked;  // called for the stream where the package has no table for it

  /// Handle of the caller's current stream, behind which a call has to come; 0: the default one.
  std::uintptr_t stream() const;
  /// Whose it is, by DLPack's name; empty where nobody says.
  const char* vendor() const;
};

/// Of a GPU's tensor that leaves nothing to refuse; nothing of all else, on the CPU or not.
std::optional<DeviceBuffer> plain_device_buffer(nanobind::handle value);

}  // namespace lanecast
