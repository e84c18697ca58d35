// SPDX-License-Identifier: Apache-2.0
// Which parts lie in a buffer, and in which order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace lanecast {

/// Parts in any order, each once.
class PartList {
 public:
  explicit PartList(std::vector<std::int32_t> parts) : parts_(std::move(parts)) {
    for (std::size_t k = 0; k < parts_.size(); ++k) places_.emplace_back(parts_[k], static_cast<std::int32_t>(k));
    std::sort(places_.begin(), places_.end());
  }

  std::int32_t operator[](std::int32_t k) const { return parts_[k]; }
  std::int32_t count() const { return static_cast<std::int32_t>(parts_.size()); }
  /// Its place in the list, or -1.
  std::int32_t index(std::int32_t part) const {
    const auto at = std::lower_bound(places_.begin(), places_.end(), std::pair(part, std::int32_t{0}));
    return at != places_.end() && at->first == part ? at->second : -1;
  }

 private:
  std::vector<std::int32_t> parts_;
  std::vector<std::pair<std::int32_t, std::int32_t>> places_;  // part, place
};

/// Parts first, first + stride, …: `count` of them; or those of a list. In the order in which they lie in a buffer.
struct PartRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t stride = 1;
  const PartList* list = nullptr;  // belongs to whoever made the range

  std::int32_t operator[](std::int32_t k) const { return list ? (*list)[k] : first + k * stride; }
  std::int32_t index(std::int32_t part) const { return list ? list->index(part) : (part - first) / stride; }
  bool has(std::int32_t part) const {
    if (list) return list->index(part) >= 0;
    return part >= first && (part - first) % stride == 0 && index(part) < count;
  }
};

}  // namespace lanecast
