// SPDX-License-Identifier: Apache-2.0
// Which threads are inside MPI: it must not end beside one that is.
#pragma once

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "transport/mpi/api.h"

namespace lanecast::mpi {

class Entrance {
 public:
  /// A thread's time inside.
  class Passage {
   public:
    explicit Passage(std::atomic<int>& inside) : inside_(&inside) {}
    ~Passage() {
      if (inside_) inside_->fetch_sub(1, std::memory_order_release);  // pairs with close()
    }
    Passage(Passage&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Passage& operator=(Passage&&) = delete;

   private:
    std::atomic<int>* inside_;
  };

  /// To be held for the time of a call of MPI's and of what is kept about it; never by a thread that holds one already.
  /// Once MPI ends, only the thread that ends it comes in.
  [[nodiscard]] Passage enter() {
    if (auto visit = enter_if_open()) return std::move(*visit);
    refuse();
  }
  /// Nothing where enter() would refuse.
  [[nodiscard]] std::optional<Passage> enter_if_open() {
    inside_.fetch_add(1);  // sequentially consistent, as all of closer_: of two that come together, one sees the other
    std::optional<Passage> visit(std::in_place, inside_);
    if (is_closed()) visit.reset();
    return visit;
  }
  /// To this thread.
  bool is_closed() const {
    const std::thread::id closer = closer_.load();
    return closer != std::thread::id() && closer != std::this_thread::get_id();
  }
  /// From now on only this thread comes in. Waits a while for those that are inside; false where one stays on.
  bool close(MpiLatecomers latecomers);

 private:
  [[noreturn]] void refuse() const;

  std::atomic<int> inside_ = 0;
  std::atomic<std::thread::id> closer_;
  std::atomic<MpiLatecomers> latecomers_ = MpiLatecomers::fail;
};

}  // namespace lanecast::mpi
