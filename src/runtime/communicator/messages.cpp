// SPDX-License-Identifier: Apache-2.0
// Calls between pairs of ranks, which the other ranks of a communicator do not take part in; and the barrier.
#include <utility>

#include "runtime/communicator/communicator.h"
#include "runtime/host/batch.h"

namespace lanecast {

void Communicator::check_all(std::span<const Transfer> transfers) const {
  const std::uint64_t tags = ground_.router->message_tags();
  for (const Transfer& transfer : transfers) check(transfer, rank(), size(), tags);
  gate_.refuse_if_failed();
}

void Communicator::run(std::span<const Transfer> transfers, const Interrupt& interrupt) {
  {
    const std::unique_lock lock = gate_.enter(interrupt);
    check_all(transfers);
    if (started_.empty()) {
      Batch batch(transfers, *ground_.router, agreement_.messages(), timeout_s_);
      return failing_.or_fail([&] {
        failing_.heed_at(trace_clock_ns(), [&] { return batch.waiting_for(-1); });
        batch.post();  // throws where a message of another size is here already
        drive(batch, interrupt);
      });
    }
  }
  wait_or_fail(*start(transfers), interrupt);
}

std::shared_ptr<Work> Communicator::start(std::span<const Transfer> transfers) {
  auto work = std::make_shared<Work>();
  {
    const std::unique_lock lock = gate_.enter();
    gate_.refuse_without_threads();
    check_all(transfers);
    auto batch = std::make_unique<Batch>(transfers, *ground_.router, agreement_.messages(), timeout_s_);
    batch->work = work;
    std::erase_if(batches_, [](const auto& other) { return other->finished(); });
    failing_.or_fail([&] {
      failing_.heed_at(trace_clock_ns(), [&] { return batch->waiting_for(-1); });
      batch->post();
    });
    if (batch->finished()) {  // it was empty
      work->finish(nullptr);
    } else {
      ground_.shown.starts(work);
      batches_.push_back(std::move(batch));
    }
  }
  hand_to_thread();
  return work;
}

bool Communicator::arrived(int peer, int tag) {
  const std::unique_lock lock = gate_.enter();
  const Transfer receive{Transfer::Way::receive, nullptr, 0, peer, tag};
  check_all({&receive, 1});
  Transport& transport = ground_.router->to(peer);
  return failing_.or_fail<UsageError>([&] {
    failing_.heed_at(trace_clock_ns(), [&] { return describe(receive); });
    return transport.arrived(peer, first_message_tag(transport.max_tag()) + static_cast<std::uint64_t>(tag));
  });
}

bool Communicator::advance_batches() {
  try {
    if (!batches_.empty()) ground_.shown.waits_for(batches_.front()->deadline().timeout_s);
    const bool moved = !batches_.empty() && ground_.router->progress();
    if (!moved) look_after_batches();
    return moved;
  } catch (const std::exception& error) {
    failing_.fail(failure_of(error));
    return true;
  }
}

void Communicator::look_after_batches() {
  if (std::erase_if(batches_, [](const auto& batch) { return batch->finished(); }) > 0 && started_.empty())
    ground_.log.waits({});
  const auto now = std::chrono::steady_clock::now();
  if (batches_.empty() || now - last_batch_look_ < kLookEvery) return;
  last_batch_look_ = now;
  if (started_.empty()) ground_.log.waits(describe_wait(*batches_.front(), -1));
  for (const auto& batch : batches_) {
    try {
      look_at(*batch, batch->deadline(), Caller::free);
    } catch (const std::exception& error) {
      // As in advance_started(): whoever waits may free the buffers only when failing_.fail() has given them up.
      // failing_.fail() ends all batches with words of its own; this one's work hears the reason.
      const std::exception_ptr why = std::current_exception();
      const std::shared_ptr<Work> work = std::exchange(batch->work, std::make_shared<Work>());
      failing_.fail(failure_of(error));
      work->finish(why);
      return;
    }
  }
}

Call Communicator::barrier_call() {
  // An all-gather of one byte each: nobody has all bytes before everybody has come. Few bytes make the selector look
  // at rounds alone: Bruck's, which are a dissemination barrier, on each level, or everyone to everyone where few are.
  Call call;
  call.kind = Kind::all_gather;
  call.is_barrier = true;
  call.count = 1;
  call.dtype = DType::uint8;
  call.in = &tokens_[rank()];
  call.out = tokens_.data();
  return call;
}

void Communicator::barrier(const Interrupt& interrupt) {
  const std::string name = "barrier, an all-gather of a byte each: ";
  try {
    run(barrier_call(), interrupt);
  } catch (const TimeoutError& error) {
    throw TimeoutError(name + error.what());
  } catch (const TransportError& error) {
    throw TransportError(name + error.what());
  }
}

void Communicator::barrier_beside_others(std::optional<double> timeout_s, const Interrupt& interrupt) {
  run_beside_others(barrier_call(), timeout_s, interrupt);
}

std::shared_ptr<Work> Communicator::start_barrier(const Interrupt& interrupt) {
  return start(barrier_call(), interrupt);
}

}  // namespace lanecast
