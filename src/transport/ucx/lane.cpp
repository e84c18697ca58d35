// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/lane.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <utility>

#include "base/endless_wait.h"
#include "base/quiet_thread.h"
#include "transport/ucx/buffers.h"

namespace lanecast::ucx {
namespace {

constexpr int kIdleRounds = 200;     // before the thread sleeps: some 100 us, as long as a few wake-ups take
constexpr int kLongestSleep = 1000;  // ms
constexpr auto kToConnect = std::chrono::milliseconds(3000);
constexpr auto kToEnd = std::chrono::milliseconds(200);

}  // namespace

UcxLane::UcxLane(const Bootstrap& bootstrap, const std::string& device)
    : worker_(bootstrap, {.device = device, .sleeps = true}),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_(quiet_thread([this] { run(); })) {}

UcxLane::~UcxLane() {
  give_up();
  thread_.join();
  worker_.close();  // it may call back until then
}

void UcxLane::connect(std::span<const int> peers) {
  {
    const std::lock_guard lock(mutex_);
    to_connect_.assign(peers.begin(), peers.end());
  }
  wake();
}

void UcxLane::await_connected() {
  std::unique_lock lock(mutex_);
  wait_without_end(has_changed_, lock, [this] { return to_connect_.empty() || over_; });
}

void UcxLane::post(LaneShare& share) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(&share);
  }
  wake();
}

void UcxLane::take_ended(std::vector<LaneShare*>& ended) {
  // Relaxed: the lock orders what the count is about, and a count seen late is seen the next time.
  if (ended_count_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
  ended_count_.store(0, std::memory_order_relaxed);
}

void UcxLane::leave() {
  {
    const std::lock_guard lock(mutex_);
    to_leave_ = to_end_ = true;
  }
  wake();
}

void UcxLane::give_up() {
  {
    const std::lock_guard lock(mutex_);
    to_end_ = true;
  }
  wake();
}

void UcxLane::await_over() {
  std::unique_lock lock(mutex_);
  wait_without_end(has_changed_, lock, [this] { return over_; });
}

void UcxLane::wake() {
  // Sequentially consistent, as in sleep(): either this sees the thread asleep, or the thread sees what was posted.
  if (!asleep_.load()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(bell_.get(), &one, sizeof one);  // fails where it rings already
}

void UcxLane::run() {
  for (int idle = 0; begin_posted();) {
    // Once a turn: after 16 rounds a busy lane told up to 1 ms late what had ended, and chunks waited to follow.
    const bool progressed = worker_.progress(), ended = hand_back();
    idle = progressed || ended ? 0 : idle + 1;
    if (idle > kIdleRounds) sleep();
  }
  std::unique_lock lock(mutex_);
  const bool leaves = to_leave_;
  lock.unlock();
  leaves ? worker_.leave() : let_go();
  lock.lock();
  over_ = true;
  has_changed_.notify_all();
}

bool UcxLane::begin_posted() {
  std::vector<int> peers;
  {
    const std::lock_guard lock(mutex_);
    if (to_end_) return false;
    taken_.swap(posted_);
    peers = to_connect_;
  }
  if (!peers.empty()) {
    worker_.connect(peers, kToConnect);
    const std::lock_guard lock(mutex_);
    to_connect_.clear();
    has_changed_.notify_all();
  }
  for (LaneShare* share : taken_) begin(*share);
  taken_.clear();
  return true;
}

void UcxLane::begin(LaneShare& share) {
  share.lane = this;
  under_way_.push_back(&share);
  const Endpoint endpoint = share.receive ? worker_.to(share.peer) : worker_.to_send_to(share.peer);
  if (!endpoint) return end(share, kNotConnected);
  RequestParams params = params_for(share.memory, &share);
  const auto [buffer, count] = buffer_of(share.memory, share.bytes);
  Request request = nullptr;
  if (share.receive) {
    params.field_mask |= RequestParams::kAlwaysCallsBack;
    params.callback.received = [](void* request, Status status, const TagInfo* info, void* user_data) {
      auto& received = *static_cast<LaneShare*>(user_data);
      received.arrived = info->length;
      received.lane->worker_.ucp().ucp_request_free(request);
      received.lane->end(received, status);
    };
    request = worker_.ucp().ucp_tag_recv_nbx(worker_.handle(), buffer, count, share.tag, UINT64_MAX, &params);
  } else {
    params.callback.sent = [](void* request, Status status, void* user_data) {
      auto& sent = *static_cast<LaneShare*>(user_data);
      sent.lane->worker_.ucp().ucp_request_free(request);
      sent.lane->end(sent, status);
    };
    request = worker_.ucp().ucp_tag_send_nbx(endpoint, buffer, count, share.tag, &params);
  }
  if (share.status != kInProgress) return;  // it has called back already
  share.request = request;
  if (const Status status = status_of(request); status != kInProgress) end(share, status);
}

void UcxLane::end(LaneShare& share, Status status) {
  share.request = nullptr;
  share.status = status;
  just_ended_.push_back(&share);
}

bool UcxLane::hand_back() {
  if (just_ended_.empty()) return false;
  for (LaneShare* share : just_ended_) {
    if (share->status != 0) share->failure = worker_.failure(share->peer);
    std::erase(under_way_, share);
  }
  const std::lock_guard lock(mutex_);
  ended_.insert(ended_.end(), just_ended_.begin(), just_ended_.end());
  ended_count_.store(ended_.size(), std::memory_order_relaxed);
  just_ended_.clear();
  return true;
}

void UcxLane::let_go() {
  if (under_way_.empty()) return;
  for (const LaneShare* share : under_way_)
    if (share->receive && share->request) worker_.ucp().ucp_request_cancel(worker_.handle(), share->request);
  const auto let_go = [this] {
    for (const LaneShare* share : std::exchange(just_ended_, {})) std::erase(under_way_, share);
    return under_way_.empty();
  };
  if (worker_.progress_until(let_go, kToEnd)) return;
  worker_.disconnect();
  worker_.progress_until(let_go, kAfterClosing);
}

void UcxLane::sleep() {
  asleep_.store(true);
  bool called = false;
  {
    const std::lock_guard lock(mutex_);
    called = to_end_ || !posted_.empty() || !to_connect_.empty();
  }
  if (!called && worker_.may_sleep()) {
    pollfd waits[] = {{worker_.event_fd(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
    poll(waits, std::size(waits), kLongestSleep);
  }
  asleep_.store(false);
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto none = read(bell_.get(), &rings, sizeof rings);
}

}  // namespace lanecast::ucx
