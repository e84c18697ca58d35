// SPDX-License-Identifier: Apache-2.0
#include "store_bootstrap.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace lanecast_torch {
namespace {

constexpr const char* kLeft = "lanecast/left";

}  // namespace

StoreBootstrap::StoreBootstrap(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                               std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

std::string StoreBootstrap::key(std::uint64_t round, int rank) const {
  return "lanecast/" + std::to_string(round) + "/" + std::to_string(rank);
}

int StoreBootstrap::all_gather(const void* in, void* out, std::size_t bytes, void* self) noexcept {
  auto& bootstrap = *static_cast<StoreBootstrap*>(self);
  try {
    bootstrap.gather(static_cast<const std::uint8_t*>(in), static_cast<std::uint8_t*>(out), bytes);
    return 0;
  } catch (const c10::Error& error) {
    bootstrap.failure_ = error.what_without_backtrace();
  } catch (const std::exception& error) {
    bootstrap.failure_ = error.what();
  }
  return 1;
}

void StoreBootstrap::gather(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
  store_->set(key(round_, rank_), std::vector<std::uint8_t>(in, in + bytes));
  for (int peer = 0; peer < size_; ++peer) {
    const std::vector<std::uint8_t> value = value_of(peer);
    TORCH_CHECK(value.size() == bytes, "rank ", peer, " brought ", value.size(), " bytes instead of ", bytes,
                " to make the group: do all ranks run the same version of Lanecast?");
    if (bytes > 0) std::memcpy(out + static_cast<std::size_t>(peer) * bytes, value.data(), bytes);
  }
  if (round_ > 0) store_->deleteKey(key(round_ - 1, rank_));
  ++round_;
}

std::vector<std::uint8_t> StoreBootstrap::value_of(int peer) {
  const auto waited = std::chrono::steady_clock::now() - begin_;
  const auto left = timeout_ - std::chrono::duration_cast<std::chrono::milliseconds>(waited);
  const std::string wanted = key(round_, peer);
  if (peer == rank_) return store_->get(wanted);
  try {
    store_->wait({wanted}, std::max(left, std::chrono::milliseconds(1)));
  } catch (const c10::Error& error) {
    std::string missing;
    for (int other = 0; other < size_; ++other)
      if (other == peer || !store_->check({key(round_, other)}))
        missing += (missing.empty() ? "" : ", ") + std::to_string(other);
    TORCH_CHECK(false, "rank ", rank_, " of ", size_, " waited ", timeout_.count(), " ms for rank ", missing,
                " to make the group: do they run, and do they make the same groups in the same order? (",
                error.what_without_backtrace(), ")");
  }
  return store_->get(wanted);
}

void StoreBootstrap::leave() {
  if (round_ == 0 || store_->add(kLeft, 1) < size_) return;
  for (int rank = 0; rank < size_; ++rank) store_->deleteKey(key(round_ - 1, rank));
  store_->deleteKey(kLeft);
}

}  // namespace lanecast_torch
