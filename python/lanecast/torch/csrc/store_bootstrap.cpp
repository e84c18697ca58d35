// SPDX-License-Identifier: Apache-2.0
#include "store_bootstrap.h"

#include <base/quiet_thread.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstring>
#include <future>

#include "signals.h"
#include "store_watch.h"

namespace lanecast_torch {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr const char* kLeft = "lanecast/left";
constexpr std::chrono::seconds kToTell{1};

std::string gave_up(int rank) { return "lanecast/gave up/" + std::to_string(rank); }

}  // namespace

/// What a thread of ours does with the store, also when nobody waits for it any more.
class StoreBootstrap::Rounds {
 public:
  Rounds(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout)
      : watch_(std::move(store), size), rank_(rank), size_(size), timeout_(timeout) {}

  int size() const { return size_; }

  void gather(const Bytes& mine, Bytes& all) {
    c10d::Store& store = watch_.store();
    if (round_ == 0) store.deleteKey(gave_up(rank_));  // of an attempt before
    store.set(key(round_, rank_), mine);
    for (int peer = 0; peer < size_; ++peer) {
      const Bytes value = value_of(peer);
      TORCH_CHECK(value.size() == mine.size(), "rank ", peer, " brought ", value.size(), " bytes instead of ",
                  mine.size(), " to make the group: do all ranks run the same version of Lanecast?");
      std::copy(value.begin(), value.end(), all.begin() + peer * static_cast<std::ptrdiff_t>(mine.size()));
    }
    if (round_ > 0) store.deleteKey(key(round_ - 1, rank_));
    ++round_;
  }

  void leave() {
    c10d::Store& store = watch_.store();
    if (round_ == 0 || store.add(kLeft, 1) < size_) return;
    for (int rank = 0; rank < size_; ++rank) store.deleteKey(key(round_ - 1, rank));
    store.deleteKey(kLeft);
  }

  /// Tells the peers, who wait for this rank.
  static void give_up(const std::shared_ptr<Rounds>& rounds, const std::string& why) {
    rounds->watch_.give_up();
    auto tell = std::make_shared<std::packaged_task<void()>>(
        [rounds, why] { rounds->watch_.store().set(gave_up(rounds->rank_), why); });
    const std::future<void> told = tell->get_future();
    lanecast::quiet_thread([tell] { (*tell)(); }).detach();
    told.wait_for(kToTell);  // most processes end now; but a store may have stopped
  }

 private:
  static std::string key(std::uint64_t round, int rank) {
    return "lanecast/" + std::to_string(round) + "/" + std::to_string(rank);
  }

  Bytes value_of(int peer) {
    const std::string wanted = key(round_, peer);
    const auto hear_peer = [&] {
      if (watch_.store().check({gave_up(peer)}))
        TORCH_CHECK(false, "rank ", peer, " gave up making the group: ", watch_.store().get_to_str(gave_up(peer)));
    };
    if (!watch_.is_set_by(begin_ + timeout_, wanted, hear_peer)) {
      std::string missing;
      for (int other = 0; other < size_; ++other)
        if (other == peer || !watch_.store().check({key(round_, other)}))
          missing += (missing.empty() ? "" : ", ") + std::to_string(other);
      TORCH_CHECK(false, "rank ", rank_, " of ", size_, " waited ", timeout_.count(), " ms for rank ", missing,
                  " to make the group: do they run, and do they make the same groups in the same order?");
    }
    return watch_.store().get(wanted);
  }

  StoreWatch watch_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::uint64_t round_ = 0;
};

StoreBootstrap::StoreBootstrap(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                               std::chrono::milliseconds timeout)
    : rounds_(std::make_shared<Rounds>(std::move(store), rank, size, timeout)) {}

int StoreBootstrap::all_gather(const void* in, void* out, std::size_t bytes, void* self) noexcept {
  auto& bootstrap = *static_cast<StoreBootstrap*>(self);
  try {
    bootstrap.gather(static_cast<const std::uint8_t*>(in), static_cast<std::uint8_t*>(out), bytes);
    return 0;
  } catch (const pybind11::error_already_set&) {  // of a handler, or of a store that is written in Python
    bootstrap.failure_ = Signals::keep();
    Rounds::give_up(bootstrap.rounds_, bootstrap.failure_);
  } catch (const c10::Error& error) {
    bootstrap.failure_ = error.what_without_backtrace();
  } catch (const std::exception& error) {
    bootstrap.failure_ = error.what();
  }
  return 1;
}

void StoreBootstrap::gather(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
  const auto all = std::make_shared<Bytes>(bytes * static_cast<std::size_t>(rounds_->size()));
  run_hearing_signals([rounds = rounds_, mine = Bytes(in, in + bytes), all] { rounds->gather(mine, *all); });
  if (!all->empty()) std::memcpy(out, all->data(), all->size());
}

void StoreBootstrap::leave() { rounds_->leave(); }

}  // namespace lanecast_torch
