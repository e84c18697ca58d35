// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include <ucontext.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "patience.h"

#ifdef GPU_HOST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace gpu_host {

thread_local Index thread_index, block_index, block_dim, grid_dim;
void (*at_word)(const void* word) = nullptr;

namespace {

#ifdef GPU_HOST_TSAN
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 32 << 10;
#endif
constexpr std::size_t kStacksKept = 8;  // of blocks

/// Stacks of all threads of a block, used again: to map their pages took most of a launch's time.
class Stacks {
 public:
  explicit Stacks(std::size_t threads) : bytes_(threads * kStackBytes) {
    const std::lock_guard lock(kept.mutex);
    if (auto found = kept.stacks.extract(bytes_))
      memory_ = std::move(found.mapped());
    else
      memory_ = std::make_unique_for_overwrite<char[]>(bytes_);
  }
  ~Stacks() {
    const std::lock_guard lock(kept.mutex);
    if (kept.stacks.size() < kStacksKept) kept.stacks.emplace(bytes_, std::move(memory_));
  }
  char* of(std::size_t thread) const { return memory_.get() + thread * kStackBytes; }

 private:
  struct Kept {
    std::mutex mutex;
    std::multimap<std::size_t, std::unique_ptr<char[]>> stacks;
  };
  static Kept& kept;

  std::size_t bytes_;
  std::unique_ptr<char[]> memory_;
};
Stacks::Kept& Stacks::kept = *new Kept;  // streams may still run when the process ends

/// Where a thread goes on. To change places asks nothing of the system; swapcontext does, for the signals' mask.
using Place = std::array<void*, 5>;
[[gnu::noinline]] void go_on(Place& to) { __builtin_longjmp(to.data(), 1); }
[[gnu::noinline]] void change(Place& from, Place& to) {
  if (__builtin_setjmp(from.data()) == 0) go_on(to);
}
[[gnu::noinline]] void begin(Place& from, char* stack, void (*enter)()) {
  ucontext_t to;
  getcontext(&to);
  to.uc_stack.ss_sp = stack;
  to.uc_stack.ss_size = kStackBytes;
  makecontext(&to, enter, 0);
  if (__builtin_setjmp(from.data()) == 0) setcontext(&to);
}

struct Thread {
  Place place{};
  bool begun = false, ended = false;
  Thread* next = nullptr;
  Index index;
#ifdef GPU_HOST_TSAN
  void* fiber = nullptr;
#endif
};

/// Threads one behind the other. It allocates and copies nothing, of which a sanitizer would believe the kernel did it.
struct Line {
  Thread *first = nullptr, *last = nullptr;
  std::size_t size = 0;

  void add(Thread* thread) {
    thread->next = nullptr;
    (first == nullptr ? first : last->next) = thread;
    last = thread;
    ++size;
  }
  void add_all(Line& others) {
    if (others.first == nullptr) return;
    (first == nullptr ? first : last->next) = others.first;
    last = others.last;
    size += others.size;
    others = {};
  }
  /// The first ones, fewer than all, go behind the others.
  void rotate(std::size_t some) {
    for (; some > 0; --some) {
      Thread* const thread = first;
      first = thread->next;
      --size;
      add(thread);
    }
  }
};

class Block {
 public:
  Block(Index shape, const std::function<void()>& body) : body_(body), threads_(shape.x), stacks_(shape.x) {
    for (unsigned k = 0; k < shape.x; ++k) threads_[k].index = {k, 0, 0};
  }

  void run() {
    for (Thread& thread : threads_) start(thread);
    alive_ = static_cast<int>(threads_.size());
    std::minstd_rand random(block_index.x + 1);
    // Short sleeps: where copy engines serve a kernel, turns that do work look like those that wait.
    for (Patience patience(std::chrono::microseconds(200)); alive_ > 0;) {
      Line turn;
      turn.add_all(ready_);
      if (turn.size == 0) std::abort();  // all stand at barriers that nobody opens
      turn.rotate(random() % turn.size);
      spinning_ = 0;
      for (Thread *thread = turn.first, *next = nullptr; thread != nullptr; thread = next) {
        next = thread->next;  // it may go into another line
        resume(*thread);
      }
      if (spinning_ == turn.size)  // all wait for another block
        patience.wait();
      else
        patience.end();
    }
  }

  void wait(int name, int threads) {
    if (!arrive(name, threads)) {
      waiting_[name].add(current_);
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

  /// Since it began.
  std::chrono::nanoseconds age() const { return std::chrono::steady_clock::now() - began_; }

  void spin() {
    ++spinning_;
    ready_.add(current_);
    back();
  }

 private:
  static void enter();

  void start(Thread& thread) {
    ready_.add(&thread);
#ifdef GPU_HOST_TSAN
    thread.fiber = __tsan_create_fiber(0);
#endif
    published(this);
  }

  void open(int name) {
    arrived_[name] = 0;
    ready_.add_all(waiting_[name]);
  }

  void end() {
    current_->ended = true;
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
    if (thread.begun)
      change(own_, thread.place);
    else
      thread.begun = true, begin(own_, stacks_.of(thread.index.x), &Block::enter);
#ifdef GPU_HOST_TSAN
    if (thread.ended) {
      __tsan_destroy_fiber(thread.fiber);
      acquired(this);
    }
#endif
  }

  void back() {
#ifdef GPU_HOST_TSAN
    __tsan_switch_to_fiber(own_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
    change(current_->place, own_);
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
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<Thread> threads_;
  Stacks stacks_;
  Place own_{};
  Thread* current_ = nullptr;
  int alive_ = 0;
  std::size_t spinning_ = 0;
  Line ready_;                    // for the next turn
  std::array<Line, 16> waiting_;  // at barriers, by their names
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

namespace {
std::atomic<bool> failed = false;
}  // namespace
void fail_launch() { failed = true; }
bool a_launch_has_failed() { return failed; }

void give_way() { running->spin(); }

unsigned long long now_ns() {
  constexpr unsigned long long kPicosecondsBeginAnew = ~0ULL / 1000, kBeforeNs = 200'000;
  return kPicosecondsBeginAnew - kBeforeNs + static_cast<unsigned long long>(running->age().count());
}

}  // namespace gpu_host
