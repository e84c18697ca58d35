// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/messages.h"

#include <algorithm>
#include <utility>

#include "runtime/agree/wait_chain.h"
#include "runtime/communicator/waits.h"

namespace lanecast {

MessageCalls::MessageCalls(const Footing& footing)
    : ground_(footing.ground), gate_(footing.gate), failing_(footing.failing), waits_(footing.waits) {
  failing_.also_ends([this](const std::exception_ptr& error) { end_all(error); });
}

void MessageCalls::check_all(std::span<const Transfer> transfers) const {
  const std::uint64_t tags = ground_.router->message_tags();
  for (const Transfer& transfer : transfers) check(transfer, ground_.rank(), ground_.size(), tags);
  gate_.refuse_if_failed();
}

void MessageCalls::post(Batch& batch) {
  failing_.heed_at(trace_clock_ns(), [&] { return batch.waiting_for(-1); });
  batch.post();  // throws where a message of another size is here already
}

void MessageCalls::run_now(std::span<const Transfer> transfers, const Interrupt& interrupt) {
  Batch batch(transfers, *ground_.router, waits_.agreement().messages(), waits_.timeout_s());
  failing_.or_fail([&] {
    post(batch);
    waits_.drive(batch, interrupt);
  });
}

std::shared_ptr<Work> MessageCalls::start(std::span<const Transfer> transfers, double timeout_s) {
  auto work = std::make_shared<Work>();
  auto batch = std::make_unique<Batch>(transfers, *ground_.router, waits_.agreement().messages(), timeout_s);
  batch->work = work;
  std::erase_if(batches_, [](const auto& other) { return other->finished(); });
  failing_.or_fail([&] { post(*batch); });
  if (batch->finished()) {  // it was empty
    work->finish(nullptr);
  } else {
    ground_.shown.starts(work);
    batches_.push_back(std::move(batch));
  }
  return work;
}

bool MessageCalls::arrived(int peer, int tag) {
  const Transfer receive{Transfer::Way::receive, nullptr, 0, peer, tag};
  check_all({&receive, 1});
  Transport& transport = ground_.router->to(peer);
  return failing_.or_fail<UsageError>([&] {
    failing_.heed_at(trace_clock_ns(), [&] { return describe(receive); });
    return transport.arrived(peer, first_message_tag(transport.traits().max_tag) + static_cast<std::uint64_t>(tag));
  });
}

bool MessageCalls::under_way() const {
  return std::ranges::any_of(batches_, [](const auto& batch) { return !batch->finished(); });
}

bool MessageCalls::advance() {
  try {
    if (!batches_.empty()) ground_.shown.waits_for(batches_.front()->deadline().timeout_s);
    const bool moved = !batches_.empty() && ground_.router->progress();
    if (!moved) look_after(/*alone=*/true);
    return moved;
  } catch (const std::exception& error) {
    failing_.fail(failure_of(error));
    return true;
  }
}

void MessageCalls::look_after(bool alone) {
  if (std::erase_if(batches_, [](const auto& batch) { return batch->finished(); }) > 0 && alone) ground_.log.waits({});
  const auto now = std::chrono::steady_clock::now();
  if (batches_.empty() || now - last_look_ < kLookEvery) return;
  last_look_ = now;
  if (alone) ground_.log.waits(waits_.describe(*batches_.front(), -1));
  for (const auto& batch : batches_) {
    try {
      waits_.look_at(*batch, batch->deadline(), Waits::Caller::free);
    } catch (const std::exception& error) {
      // As in OrderedCalls::advance(): whoever waits may free the buffers only when fail() has given them up. fail()
      // ends all batches with words of its own; this one's work hears the reason.
      const std::exception_ptr why = std::current_exception();
      const std::shared_ptr<Work> work = std::exchange(batch->work, std::make_shared<Work>());
      failing_.fail(failure_of(error));
      work->finish(why);
      return;
    }
  }
}

void MessageCalls::end_all(const std::exception_ptr& error) {
  for (auto& batch : batches_)
    if (!batch->finished() && !batch->work->done()) batch->work->finish(error);
  batches_.clear();
}

std::optional<std::string> MessageCalls::waits_for(const Work& work) const {
  for (const auto& batch : batches_)
    if (batch->work.get() == &work && !batch->finished())
      return names_of(batch->awaited_peers()) + " in " + waits_.describe(*batch, -1);
  return {};
}

}  // namespace lanecast
