// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/counts_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace lanecast {
namespace {

/// Bytes of a part that two ranks know; a longer one takes as much memory for its messages as the longest chunk.
constexpr std::array<std::size_t, 3> kBounds{std::size_t{16} << 10, std::size_t{128} << 10, std::size_t{1} << 20};
constexpr std::size_t kAnyLength = std::size_t{1} << 50;

/// Of parts that all ranks know bounds are powers of two, so memory is twice what it would have to be, at most.
constexpr std::size_t kLeastBound = std::size_t{4} << 10;
/// All parts may be as long as the longest, which is so many times the mean at most.
constexpr std::size_t kMostUnequal = 4;

std::size_t largest(std::span<const std::size_t> counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}
std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

bool BoundedCall::serves(const Call& call) {
  if (call.own_counts()) return true;
  return call.slice.count == 1 && !call.counts.empty() &&
         largest(call.counts) <= kMostUnequal * (sum(call.counts) / call.counts.size());
}

BoundedCall::BoundedCall(const Call& call) : call_(call) {
  const auto& on_device = call.counts_on_device;
  if (call.own_counts())
    bind_by_pairs(on_device ? on_device->bound * on_device->row
                            : std::max(largest(call.send_counts), largest(call.recv_counts)));
  else
    bind_to_all();
}

void BoundedCall::bind_by_pairs(std::size_t most) {
  const std::size_t element = size_of(call_.dtype);
  const auto* const found = std::ranges::lower_bound(kBounds, most * element);
  bound_ = found == kBounds.end() ? kAnyLength : *found;
  const std::size_t each = bound_ / element;
  const bool on_device = call_.counts_on_device.has_value();
  sends_.assign(on_device ? call_.counts_on_device->ranks : call_.send_counts.size(), each);
  receives_.assign(on_device ? call_.counts_on_device->ranks : call_.recv_counts.size(), each);
  call_.send_counts = sends_;
  call_.recv_counts = receives_;
  call_.counts_on_device.reset();
}

void BoundedCall::bind_to_all() {
  const std::size_t element = size_of(call_.dtype);
  bound_ = std::bit_ceil(std::max(largest(call_.counts) * element, kLeastBound));
  all_ = std::bit_ceil(std::max(sum(call_.counts) * element, kLeastBound));
  counts_.assign(call_.counts.size(), bound_ / element);
  call_.counts = counts_;
  call_.count = all_ / element;  // two bounds, so two of what equal calls have in common
}

std::shared_ptr<LaunchCounts> CountsPool::free(std::size_t rows) {
  // Only whoever makes calls takes one, so what nobody else has is free, and stays so.
  if (all_.empty() || all_.front().use_count() > 1 || all_.front()->rows() < rows) return nullptr;
  std::shared_ptr<LaunchCounts> counts = std::move(all_.front());
  all_.pop_front();
  all_.push_back(counts);
  return counts;
}

std::shared_ptr<LaunchCounts> CountsPool::make(std::size_t rows) {
  all_.push_back(std::make_shared<LaunchCounts>(device_, rows));
  return all_.back();
}

}  // namespace lanecast
