// SPDX-License-Identifier: Apache-2.0
// What a chunk notes in the call log, where somebody wants to know what took the time.
#include "runtime/host/chunk_run.h"

namespace lanecast {

std::int64_t ChunkRun::begin_ns() const { return context_.router.log() ? trace_clock_ns() : 0; }

void ChunkRun::record_message(std::uint32_t step, std::size_t bytes, std::int64_t posted_ns) const {
  CallLog* const log = context_.router.log();
  if (!log) return;
  const Step& what = plan_.steps[step];
  const Transport* const transport =
      what.peer >= 0
          ? &transport_to(what.peer)
          : context_.router.library_for(plan_.groups[what.group].kind, context_.shape.dtype, context_.shape.op);
  log->add({.kind = what.kind,
            .peer = what.peer,
            .step = step,
            .chunk = chunk_.index,
            .bytes = bytes,
            .begin_ns = posted_ns,
            .end_ns = trace_clock_ns(),
            .transport = transport->name()});
}

void ChunkRun::record_work(std::uint32_t step, StepKind kind, std::size_t bytes, std::int64_t begin_ns) const {
  if (CallLog* const log = context_.router.log())
    log->add({.kind = kind,
              .step = step,
              .chunk = chunk_.index,
              .bytes = bytes,
              .begin_ns = begin_ns,
              .end_ns = trace_clock_ns(),
              .transport = {}});
}

}  // namespace lanecast
