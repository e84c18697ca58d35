// SPDX-License-Identifier: Apache-2.0
// A failed communicator stays failed: started calls end, peers hear why, further calls are refused.
#include <cstdio>

#include "runtime/communicator/started.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/watch/trace_file.h"

namespace lanecast {
namespace {

constexpr std::string_view kAborted = "this communicator was aborted and takes no more calls: ";

}  // namespace

void Communicator::fail(const Failure& reason) {
  Failure why = reason;
  // What the program did tells no rank, and peers hear of it from others than this one.
  if (why.kind == FailureKind::user) why.text = "rank " + std::to_string(rank()) + ": " + why.text;
  failure_ = why;
  if (gpu_) gpu_->poison();
  router_->abort(cause_ ? cause_ : why);
  // Whose kernels end without a word must find one here.
  if (gpu_ && router_->tells_at_once()) gpu_->poison_peers();
  if (gpu_) gpu_->abort_native();  // last, since it takes a while in which the peers hear why
  log_.fails(why.text);
  keep_trace();
  const auto error = std::make_exception_ptr(TransportError("the communicator has failed: " + why.text));
  for (auto& call : started_) {
    plans_->keep(call->shared());
    call->work->finish(error);
  }
  started_.clear();
  for (auto& batch : batches_)
    if (!batch->finished() && !batch->work->done()) batch->work->finish(error);
  batches_.clear();
  tell_by_and_by();
}

void Communicator::tell_by_and_by() {
  if (!router_->tell() || !threads_refused(around_).empty()) return;
  telling_ = Deadline{std::chrono::steady_clock::now(), timeout_s_};
  try {
    progress_->add(*this);
  } catch (const UsageError&) {  // the process is ending
    telling_.reset();
  }
}

void Communicator::abort(const std::string& why) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (abort_reason_.empty()) abort_reason_ = why;
  }
  aborted_.store(true, std::memory_order_release);  // pairs with end_if_aborted()
  if (is_asking()) return;  // a handler's: the call that it interrupts goes on to end_if_aborted()
  const std::unique_lock lock = enter();
  if (!failure_) fail({FailureKind::user, std::string(kAborted) + why});
}

void Communicator::end_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;  // pairs with abort()
  const std::lock_guard lock(abort_mutex_);
  throw AbortedError(std::string(kAborted) + abort_reason_);
}

void Communicator::heed(std::string_view before) {
  const std::optional<int> peer = router_->given_up();
  if (!peer) return;
  const Loss loss = router_->witness(*peer).lost(*peer);
  if (loss.cause) lose(*peer, loss, "before " + std::string(before));
}

void Communicator::write_trace(const std::string& directory) const {
  lanecast::write_trace(directory, {id_, rank(), topology_, transports()}, log_);
}

void Communicator::keep_trace() const {
  if (options_.trace_dir.empty()) return;
  try {
    write_trace(options_.trace_dir);
  } catch (const std::exception& error) {  // the failure itself, or the end of the communicator, matters more
    std::fprintf(stderr, "lanecast: rank %d: %s\n", rank(), error.what());
  }
}

void Communicator::refuse_if_failed() const {
  if (failure_)
    throw TransportError("rank " + std::to_string(rank()) + ": this communicator has failed and takes no more calls; " +
                         "make a new one. It failed because: " + failure_.text);
}

}  // namespace lanecast
