// SPDX-License-Identifier: Apache-2.0
// Collectives, messages and barriers as the Python package calls them. Arrays come checked (contiguous, writable where
// written); this layer adds nothing but releasing the GIL and looking for Ctrl-C while it waits.
#include "calls.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "gil.h"
#include "held_calls.h"
#include "host_buffers.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/communicator/persistent.h"
#include "runtime/gpu/bound_program.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {

void raise_signals() {
  const WithGil gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool count_by_sizes(Call& call, const Communicator& c, std::size_t inputs, std::size_t outputs) {
  const Collective collective = collective_of(call, c.size(), false);
  const auto brings = static_cast<std::size_t>(collective.inputs(c.rank()).count);
  const auto gets = static_cast<std::size_t>(collective.outputs(c.rank()).count);
  call.count = gets > 0 ? outputs / gets : inputs / brings;
  return (brings == 0 || inputs == call.count * brings) && (gets == 0 || outputs == call.count * gets);
}

namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// A started call with the arrays it reads and writes, which must not go before it is done.
struct AsyncWork {
  std::shared_ptr<Work> work;
  nb::object arrays;
};

/// A bound call. Members go in reverse: the communicator outlives the call, and its end gives up a start under way
/// before the arrays go.
struct AsyncCall {
  nb::object arrays;
  nb::object communicator;
  std::unique_ptr<PersistentCall> call;
};

/// To Python, which may drop it.
nb::typed<nb::object, AsyncWork> held_until_done(HeldCalls& held, AsyncWork started) {
  const std::shared_ptr<Work> work = started.work;
  nb::object object = nb::cast(std::move(started));
  held.hold([work] { return work->done(); }, object);
  return nb::typed<nb::object, AsyncWork>(std::move(object));
}

/// Defines a method that takes `first` and a collective's arguments and hands them to make(communicator, first, call,
/// input, output); the call refers to the arrays and to counts that are gone when it returns.
template <class... First, class Make, class... Names>
void def_collective(nb::class_<Communicator>& communicator, const char* name, Make make, const Names&... names) {
  static_assert(sizeof...(First) == sizeof...(Names));
  communicator.def(
      name,
      [make](Communicator& c, First... first, int kind, const Array& input, const Array& output, int dtype, int op,
             std::size_t count, const std::vector<std::size_t>& counts, std::string_view algorithm, int chunks,
             int root, const std::vector<std::size_t>& send_counts, const std::vector<std::size_t>& recv_counts,
             std::optional<bool> reproducible) {
        const Call call{static_cast<Kind>(kind),
                        input.data(),
                        const_cast<void*>(output.data()),
                        count,
                        counts,
                        static_cast<DType>(dtype),
                        static_cast<ReduceOp>(op),
                        algorithm,
                        chunks,
                        root,
                        send_counts,
                        recv_counts,
                        reproducible};
        return make(c, first..., call, input, output);
      },
      names..., "kind"_a, "input"_a, "output"_a, "dtype"_a, "op"_a, "count"_a, "counts"_a, "algorithm"_a, "chunks"_a,
      "root"_a = 0, "send_counts"_a = std::vector<std::size_t>{}, "recv_counts"_a = std::vector<std::size_t>{},
      "reproducible"_a = nb::none());
}

/// (is it a send?, buffer, peer, tag)
using Messages = std::vector<std::tuple<bool, Array, int, std::int64_t>>;

std::vector<Transfer> transfers_from(const Messages& messages) {
  std::vector<Transfer> transfers;
  for (const auto& [sends, array, peer, tag] : messages)
    transfers.push_back({sends ? Transfer::Way::send : Transfer::Way::receive, const_cast<void*>(array.data()),
                         array.nbytes(), peer, tag});
  return transfers;
}

void bind_handles(nb::module_& m) {
  nb::class_<HeldCalls>(m, "HeldCalls", "Started calls with what they use, which their callers may drop.")
      .def(nb::init<>())
      .def(
          "hold",
          [](HeldCalls& held, nb::object work, nb::object kept) {
            held.hold([work = std::move(work)] { return nb::cast<bool>(work.attr("is_completed")()); },
                      std::move(kept));
          },
          "work"_a, "kept"_a, "For a call on a GPU.");

  nb::class_<AsyncWork>(m, "Work", "A started call.")
      .def(
          "wait",
          [](AsyncWork& w) {
            {
              const WithoutGil release;
              Communicator::wait(*w.work, raise_signals);
            }
            w.arrays.reset();
          },
          "Block until the buffers may be used again; raises the call's error.")
      .def("is_completed", [](AsyncWork& w) { return w.work->done(); }, "True when done, also after an error.");

  nb::class_<AsyncCall>(m, "PersistentCall", "A collective bound to its buffers.")
      .def(
          "start",
          [](nb::handle_t<AsyncCall> self, HeldCalls& held) {
            PersistentCall& call = *nb::cast<AsyncCall&>(self).call;
            {
              const WithoutGil release;
              call.start(raise_signals);
            }
            held.hold([&call] { return call.done(); }, nb::borrow(self));
          },
          "held"_a)
      .def(
          "wait", [](AsyncCall& c) { c.call->wait(raise_signals); }, nb::call_guard<WithoutGil>())
      .def(
          "run", [](AsyncCall& c) { c.call->run(raise_signals); }, nb::call_guard<WithoutGil>())
      .def("is_completed", [](AsyncCall& c) { return c.call->done(); })
      .def(
          "rebind",
          [](AsyncCall& c, const Array& input, const Array& output) {
            {
              const WithoutGil release;  // a call of another thread may hold the communicator and want the GIL
              c.call->rebind(input.data(), const_cast<void*>(output.data()));
            }
            c.arrays = nb::make_tuple(input, output);
          },
          "input"_a, "output"_a)
      .def_prop_ro("scratch_bytes", [](const AsyncCall& c) { return c.call->scratch_bytes(); })
      .def_prop_ro("plan", [](const AsyncCall& c) { return c.call->plan(); });
}

struct Knobs {
  std::vector<int> factors;
  std::optional<Topology> hierarchy;
  int stripe = 0, ring = 0, chunks = 0;
  std::string transports;
  std::optional<bool> proven;

  /// Without buffers; it refers to `counts`.
  ComposedCall applied_to(const Composition& composition, DType dtype, const std::vector<std::size_t>& counts) const {
    ComposedCall call;
    call.composition = std::make_shared<const Composition>(composition);
    call.counts = counts;
    call.dtype = dtype;
    call.shaping = {factors, hierarchy, stripe, ring};
    call.transports = transports;
    call.chunks = chunks;
    call.proven = proven;
    return call;
  }
};

void bind_compositions(nb::module_& m, nb::class_<Communicator>& communicator) {
  nb::class_<Knobs>(m, "Knobs", "How a composition is to be shaped and run; see Communicator.compile of the package.")
      .def(nb::init<>())
      .def_rw("factors", &Knobs::factors)
      .def_rw("hierarchy", &Knobs::hierarchy)
      .def_rw("stripe", &Knobs::stripe)
      .def_rw("ring", &Knobs::ring)
      .def_rw("chunks", &Knobs::chunks)
      .def_rw("transports", &Knobs::transports)
      .def_rw("proven", &Knobs::proven);
  communicator.def(
      "compile",
      [](Communicator& c, const Composition& composition, const Array& input, const Array& output, int dtype,
         const std::vector<std::size_t>& counts, const Knobs& knobs) {
        AsyncCall bound{nb::make_tuple(input, output), nb::find(c), nullptr};
        const WithoutGil release;
        ComposedCall call = knobs.applied_to(composition, static_cast<DType>(dtype), counts);
        call.in = input.data();
        call.out = const_cast<void*>(output.data());
        bound.call = std::make_unique<PersistentCall>(c, call);
        return bound;
      },
      "composition"_a, "input"_a, "output"_a, "dtype"_a, "counts"_a, "knobs"_a);
  communicator.def(
      "compile_on_gpu",
      [](Communicator& c, const Composition& composition, std::uintptr_t input, std::uintptr_t output, int device,
         int dtype, const std::vector<std::size_t>& counts, const Knobs& knobs) {
        const WithoutGil release;
        ComposedCall call = knobs.applied_to(composition, static_cast<DType>(dtype), counts);
        call.in = reinterpret_cast<const void*>(input);
        call.out = reinterpret_cast<void*>(output);
        return c.gpu().compile(call, device);
      },
      "composition"_a, "input"_a, "output"_a, "device"_a, "dtype"_a, "counts"_a, "knobs"_a,
      "input, output: addresses, 0 where the rank has none. Waits only where it is the first call on a GPU.");
}

/// Python takes as long to look at two arrays as a short call does, so what leaves nothing to ask is made in one step;
/// false, with nothing done, for all else.
bool run_at_once(Communicator& c, int kind, nb::handle input, nb::handle output, int op, nb::handle algorithm,
                 nb::handle chunks, nb::handle root, nb::handle reproducible) {
  Call call;
  call.kind = static_cast<Kind>(kind);
  call.op = static_cast<ReduceOp>(op);
  if (!nb::try_cast(algorithm, call.algorithm) || !nb::try_cast(chunks, call.chunks) ||
      !nb::try_cast(root, call.root) || !nb::try_cast(reproducible, call.reproducible))
    return false;
  const bool is_root = c.rank() == call.root, is_one = input.is(output);
  // What a rank neither brings nor gets is anything.
  if (!is_one && has_root(call.kind) && !is_root) return false;
  const bool only_read = (call.kind == Kind::broadcast && is_root) || (call.kind == Kind::reduce && !is_root);
  const auto target = plain_host_buffer(output, !only_read);
  if (!target) return false;
  const std::optional<HostBuffer> apart = is_one ? std::nullopt : plain_host_buffer(input, /*written=*/false);
  const HostBuffer* const source = is_one ? &*target : apart ? &*apart : nullptr;
  if (!source || source->dtype != target->dtype || !count_by_sizes(call, c, source->size(), target->size()))
    return false;
  const auto ranks = static_cast<std::size_t>(c.size());
  if (call.kind == Kind::all_to_all && (source->rows() % ranks != 0 || target->rows() % ranks != 0)) return false;
  call.in = source->data();
  call.out = target->data();
  call.dtype = target->dtype;
  const WithoutGil release;
  c.run(call, raise_signals);
  return true;
}

void bind_collectives(nb::class_<Communicator>& communicator) {
  communicator.def("run_at_once", &run_at_once, "kind"_a, "input"_a.none(), "output"_a.none(), "op"_a,
                   "algorithm"_a.none(), "chunks"_a.none(), "root"_a.none() = 0, "reproducible"_a = nb::none(),
                   "Of numpy arrays; false, with nothing done, where there is anything to ask.");
  // The caller's arguments hold the arrays: to make objects of them takes as long as the call of a few bytes.
  def_collective(communicator, "run", [](Communicator& c, const Call& call, const Array&, const Array&) {
    const WithoutGil release;
    c.run(call, raise_signals);
  });
  const auto start = [](Communicator& c, HeldCalls& held, const Call& call, const Array& input, const Array& output) {
    AsyncWork work{nullptr, nb::make_tuple(input, output)};
    {
      const WithoutGil release;
      work.work = c.start(call, raise_signals);
    }
    return held_until_done(held, std::move(work));
  };
  def_collective<HeldCalls&>(communicator, "start", start, "held"_a);
  def_collective<HeldCalls&, int, int>(
      communicator, "start_slice",
      [start](Communicator& c, HeldCalls& held, int index, int slices, Call call, const Array& input,
              const Array& output) {
        call.slice = {index, slices};
        return start(c, held, call, input, output);
      },
      "held"_a, "index"_a, "slices"_a);
  def_collective<int, int>(
      communicator, "run_slice",
      [](Communicator& c, int index, int slices, Call call, const Array&, const Array&) {
        call.slice = {index, slices};
        const WithoutGil release;
        c.run(call, raise_signals);
      },
      "index"_a, "slices"_a);
  const auto bind = [](Communicator& c, const Call& call, const Array& input, const Array& output) {
    AsyncCall bound{nb::make_tuple(input, output), nb::find(c), nullptr};
    const WithoutGil release;
    bound.call = std::make_unique<PersistentCall>(c, call);
    return bound;
  };
  def_collective(communicator, "persistent", bind);
  communicator
      .def(
          "barrier", [](Communicator& c) { c.run(BarrierRequest{}, raise_signals); }, nb::call_guard<WithoutGil>())
      .def("start_barrier", [](Communicator& c) {
        AsyncWork work;
        const WithoutGil release;
        work.work = c.start(BarrierRequest{}, raise_signals);
        return work;
      });
}

void bind_messages(nb::class_<Communicator>& communicator) {
  communicator
      .def(
          "run_messages",
          [](Communicator& c, const Messages& messages) {
            const std::vector<Transfer> transfers = transfers_from(messages);
            const WithoutGil release;
            c.run(transfers, raise_signals);
          },
          "messages"_a, "Each: is it a send, its buffer, the peer, the tag.")
      .def(
          "start_messages",
          [](Communicator& c, HeldCalls& held, const Messages& messages) {
            nb::list arrays;
            for (const auto& message : messages) arrays.append(std::get<1>(message));
            const std::vector<Transfer> transfers = transfers_from(messages);
            AsyncWork work{nullptr, arrays};
            {
              const WithoutGil release;
              work.work = c.start(transfers);
            }
            return held_until_done(held, std::move(work));
          },
          "held"_a, "messages"_a);
}

}  // namespace

void bind_calls(nb::module_& m, nb::class_<Communicator>& communicator) {
  bind_handles(m);
  bind_collectives(communicator);
  bind_messages(communicator);
  bind_compositions(m, communicator);
}

}  // namespace lanecast
