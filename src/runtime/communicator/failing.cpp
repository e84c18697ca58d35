// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/failing.h"

#include <optional>

#include "runtime/gpu/gpu_executor.h"

namespace lanecast {

Failing::Failing(Ground& ground, Gate& gate) : ground_(ground), gate_(gate) {
  gate.when_given_up([this](const Failure& failure) { fail(failure); });
}

void Failing::opens(const std::shared_ptr<GpuExecutor>& executor) {
  gpu_ = executor;
  ground_.shown.opens(executor);
}

void Failing::fail(const Failure& reason) {
  Failure why = reason;
  // What the program did tells no rank, and peers hear of it from others than this one.
  if (why.kind == FailureKind::user) why.text = "rank " + std::to_string(ground_.rank()) + ": " + why.text;
  gate_.shut(why);
  Router& router = *ground_.router;
  const std::shared_ptr<GpuExecutor> gpu = gpu_.lock();
  if (gpu) gpu->poison();
  router.abort(cause_ ? cause_ : why);
  // Whose kernels end without a word must find one here.
  if (gpu && router.tells_at_once()) gpu->poison_peers();
  if (gpu) gpu->nccl().abort();  // last, since it takes a while in which the peers hear why
  ground_.log.fails(why.text);
  ground_.keep_trace();
  const auto error = std::make_exception_ptr(TransportError("the communicator has failed: " + why.text));
  for (const auto& ends : parts_) ends(error);
}

void Failing::abort(const std::string& why) {
  gate_.close(why);
  if (gate_.is_asking()) return;  // a handler's: the call that it interrupts goes on and hears it from the gate
  const Gate::Lock lock = gate_.enter();
  if (!gate_.failure()) fail({FailureKind::user, Gate::aborted(why)});
}

void Failing::lose(int peer, const Loss& loss, const std::string& where) {
  const std::string text = "rank " + std::to_string(ground_.rank()) + " lost rank " + std::to_string(peer) + " (" +
                           loss.str() + ") " + where;
  // A peer that gave up has said why: that is the cause here as well, and what others should hear from this rank.
  cause_ = loss.cause ? loss.cause : Failure{FailureKind::lost, text};
  raise({cause_.kind, text});
}

void Failing::heed(std::string_view before) {
  const std::optional<int> peer = ground_.router->given_up();
  if (!peer) return;
  const Loss loss = ground_.router->witness(*peer).lost(*peer);
  if (loss.cause) lose(*peer, loss, "before " + std::string(before));
}

}  // namespace lanecast
