// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include <sched.h>
#include <ucontext.h>

#include <array>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#ifdef GPU_HOST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace gpu_host {

thread_local Index thread_index, block_index, block_dim, grid_dim;

namespace {

#ifdef GPU_HOST_TSAN
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 32 << 10;
#endif
constexpr int kReady = -1, kEnded = -2;

struct Thread {
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  int barrier = kReady;  // the name of the one it stands at
  Index index;
#ifdef GPU_HOST_TSAN
  void* fiber = nullptr;
#endif
};

class Block {
 public:
  Block(Index shape, const std::function<void()>& body) : body_(body), threads_(shape.x) {
    for (unsigned k = 0; k < shape.x; ++k) threads_[k].index = {k, 0, 0};
  }

  void run() {
    for (Thread& thread : threads_) start(thread);
    alive_ = static_cast<int>(threads_.size());
    std::minstd_rand random(block_index.x + 1);
    while (alive_ > 0) {
      const std::size_t first = random() % threads_.size();
      spinning_ = 0;
      std::size_t ran = 0;
      for (std::size_t k = 0; k < threads_.size(); ++k) {
        Thread& thread = threads_[(first + k) % threads_.size()];
        if (thread.barrier != kReady) continue;
        resume(thread);
        ++ran;
      }
      if (ran == spinning_) sched_yield();  // all wait for another block
    }
  }

  void wait(int name, int threads) {
    if (!arrive(name, threads)) {
      current_->barrier = name;
      back();
    }
    acquired(&arrived_[name]);
  }

  /// Was this the last one?
  bool arrive(int name, int threads) {
    published(&arrived_[name]);
    const bool last = ++arrived_[name] == (name == 0 ? alive_ : threads);
    if (last) open(name);
    return last;
  }

  void spin() {
    ++spinning_;
    back();
  }

 private:
  static void enter();

  void start(Thread& thread) {
    thread.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    makecontext(&thread.context, &Block::enter, 0);
#ifdef GPU_HOST_TSAN
    thread.fiber = __tsan_create_fiber(0);
#endif
    published(this);
  }

  void open(int name) {
    arrived_[name] = 0;
    for (Thread& thread : threads_)
      if (thread.barrier == name) thread.barrier = kReady;
  }

  void end() {
    current_->barrier = kEnded;
    --alive_;
    published(this);
    published(&arrived_[0]);
    if (alive_ > 0 && arrived_[0] == alive_) open(0);
  }

  void resume(Thread& thread) {
    current_ = &thread;
    thread_index = thread.index;
#ifdef GPU_HOST_TSAN
    own_fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(thread.fiber, __tsan_switch_to_fiber_no_sync);
#endif
    swapcontext(&own_, &thread.context);
#ifdef GPU_HOST_TSAN
    if (thread.barrier == kEnded) {
      __tsan_destroy_fiber(thread.fiber);
      acquired(this);
    }
#endif
  }

  void back() {
#ifdef GPU_HOST_TSAN
    __tsan_switch_to_fiber(own_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
    swapcontext(&current_->context, &own_);
  }

  // What threads of a block may know of each other: nothing but what lies before a barrier, or before they began.
  static void published([[maybe_unused]] void* where) {
#ifdef GPU_HOST_TSAN
    __tsan_release(where);
#endif
  }
  static void acquired([[maybe_unused]] void* where) {
#ifdef GPU_HOST_TSAN
    __tsan_acquire(where);
#endif
  }

  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  ucontext_t own_{};
  Thread* current_ = nullptr;
  int alive_ = 0;
  std::size_t spinning_ = 0;
  std::array<int, 16> arrived_{};
#ifdef GPU_HOST_TSAN
  void* own_fiber_ = nullptr;
#endif
};

thread_local Block* running = nullptr;

void Block::enter() {
  Block& block = *running;
  acquired(&block);
  block.body_();
  block.end();
  block.back();
}

}  // namespace

void run_grid(const Shape& shape, const std::function<void()>& body) {
  std::vector<std::thread> blocks;
  for (unsigned b = 0; b < shape.grid.x; ++b)
    blocks.emplace_back([&, b] {
      grid_dim = shape.grid;
      block_dim = shape.block;
      block_index = {b, 0, 0};
      Block block(shape.block, body);
      running = &block;
      block.run();
    });
  for (std::thread& block : blocks) block.join();
}

void wait_at_barrier(int name, int threads) { running->wait(name, threads); }

void arrive_at_barrier(int name, int threads) { running->arrive(name, threads); }

void give_way() { running->spin(); }

}  // namespace gpu_host
