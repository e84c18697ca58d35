// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/carried_messages.h"

#include <utility>

#include "runtime/communicator/waits.h"
#include "runtime/gpu/between_hosts/in_context.h"
#include "runtime/gpu/between_hosts/messages_between_hosts.h"

namespace lanecast {

CarriedMessages::CarriedMessages(const Footing& footing)
    : ground_(footing.ground), gate_(footing.gate), failing_(footing.failing), waits_(footing.waits) {}

void CarriedMessages::open(MessagesBetweenHosts& messages, std::function<void()> raise_fault) {
  if (std::exchange(messages_, &messages) != nullptr) return;
  raise_fault_ = std::move(raise_fault);
  // A rank may be in a blocking call of the host that its peer makes once it has a message of this one.
  waits_.also_moves([this] {
    const bool moved = advance();
    if (gate_.failure()) raise(gate_.failure());
    return moved;
  });
}

void CarriedMessages::look_after(MessageProxy& proxy, bool moved, std::chrono::steady_clock::time_point now,
                                 bool looks) const {
  if (moved || proxy.on_hold())
    proxy.deadline.last_progress = now;
  else if (looks)
    waits_.look_at(proxy, proxy.deadline, Waits::Caller::free);
}

bool CarriedMessages::move() {
  Router& router = *ground_.router;
  const auto now = std::chrono::steady_clock::now();
  const bool looks = now - looked_ >= kLookEvery;
  if (looks) looked_ = now;
  bool any = false, has_progressed = false;
  messages_->for_each_proxy([&](MessageProxy& proxy, int peer) {
    if (proxy.finished()) return;
    const InContext in_context(router, messages_->context(), peer);
    if (!std::exchange(has_progressed, true)) any |= router.progress();
    const bool moved = proxy.advance();
    any |= moved;
    look_after(proxy, moved, now, looks);
  });
  // Behind a kernel that has failed the device puts nothing, and what the host has enqueued never comes.
  if (looks) raise_fault_();
  return any;
}

bool CarriedMessages::advance() {
  if (empty()) return false;
  try {
    ground_.shown.waits_for(waits_.timeout_s());
    return move();
  } catch (const std::exception& error) {
    failing_.fail(failure_of(error));
    return true;
  }
}

bool CarriedMessages::empty() const {
  if (!is_open() || gate_.failure()) return true;
  bool none = true;
  messages_->for_each_proxy([&](const MessageProxy& proxy, int) { none &= proxy.finished(); });
  return none;
}

bool CarriedMessages::listens() const { return is_open() && !gate_.failure() && messages_->may_be_replayed(); }

bool CarriedMessages::follows_device() const {
  bool any = false;
  if (is_open()) messages_->for_each_proxy([&](const MessageProxy& proxy, int) { any |= proxy.follows_device(); });
  return any;
}

}  // namespace lanecast
