// SPDX-License-Identifier: Apache-2.0
// Memory of numpy arrays, as calls take it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "base/dtype.h"

namespace lanecast {

/// Contiguous memory of the caller's, which stays where it is as long as this does. Ends with Python's lock held.
class HostBuffer {
 public:
  HostBuffer(HostBuffer&& other) noexcept : dtype(other.dtype), view_(std::exchange(other.view_, {})) {}
  HostBuffer& operator=(HostBuffer&&) = delete;
  ~HostBuffer() { PyBuffer_Release(&view_); }  // nothing where it was moved away

  void* data() const { return view_.buf; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len / view_.itemsize); }  // elements
  /// Length of the first dimension.
  std::size_t rows() const { return view_.ndim > 0 ? static_cast<std::size_t>(view_.shape[0]) : size(); }

  DType dtype{};

 private:
  friend std::optional<HostBuffer> plain_host_buffer(nanobind::handle array, bool written);
  explicit HostBuffer(const Py_buffer& view) : view_(view) {}

  Py_buffer view_;
};

/// Of a numpy array that leaves nothing to refuse; nothing of all else.
std::optional<HostBuffer> plain_host_buffer(nanobind::handle array, bool written);

}  // namespace lanecast
