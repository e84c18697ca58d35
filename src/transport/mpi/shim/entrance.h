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
  class Visit {
   public:
    explicit Visit(std::atomic<int>& inside) : inside_(&inside) {}
    ~Visit() {
      if (inside_) inside_->fetch_sub(1, std::memory_order_release);  // pairs with close()
    }
    Visit(Visit&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Visit& operator=(Visit&&) = delete;

   private:
    std::atomic<int>* inside_;
  };

  /// To be held for the time of a call of MPI's and of what is kept about it; never by a thread that holds one already.
  /// Once MPI ends, only the thread that ends it comes in.
  [[nodiscard]] Visit enter() {
    if (auto visit = enter_if_open()) return std::move(*visit);
    refuse();
  }
  /// Nothing where enter() would refuse.
  [[nodiscard]] std::optional<Visit> enter_if_open() {
    inside_.fetch_add(1);  // sequentially consistent, as all of closer_: of two that come together, one sees the other
    std::optional<Visit> visit(std::in_place, inside_);
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
