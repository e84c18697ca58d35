// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of a GPU's memory as the Python package calls them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "calls.h"
#include "device_buffers.h"
#include "gil.h"
#include "peers/slice_memory.h"
#include "runtime/communicator/device_work.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/request/composed_call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

OnStream on_stream(std::uintptr_t stream, int device) { return {reinterpret_cast<void*>(stream), device}; }
OnStream beside_stream(std::uintptr_t stream, int device) {
  return {reinterpret_cast<void*>(stream), device, /*apart=*/true};
}

/// (send counts, receive counts, bound, elements of a row, rows of the input, of the output)
using CountsOfTensors =
    std::tuple<const DeviceBuffer*, const DeviceBuffer*, std::size_t, std::size_t, std::size_t, std::size_t>;

CountsOnDevice counts_from(const CountsOfTensors& given) {
  const auto& [sends, receives, bound, row, in_rows, out_rows] = given;
  return {reinterpret_cast<const void*>(sends->address),
          reinterpret_cast<const void*>(receives->address),
          std::min(sends->size, receives->size),
          bound,
          row,
          in_rows,
          out_rows};
}

/// Defines a method that takes `first` and hands a call on device memory to make(communicator, first, call, device,
/// stream).
template <class... First, class Make, class... Extra>
void def_enqueue(nb::class_<Communicator>& communicator, const char* name, Make make, const Extra&... extra) {
  communicator.def(
      name,
      [make](Communicator& c, First... first, int kind, const DeviceBuffer& input, const DeviceBuffer& output,
             int dtype, int op, std::size_t count, const std::vector<std::size_t>& counts, std::string_view algorithm,
             int chunks, int root, const std::vector<std::size_t>& send_counts,
             const std::vector<std::size_t>& recv_counts, std::optional<bool> reproducible,
             const std::optional<CountsOfTensors>& on_device) {
        Call call;
        call.kind = static_cast<Kind>(kind);
        call.in = reinterpret_cast<const void*>(input.address);
        call.out = reinterpret_cast<void*>(output.address);
        call.count = count;
        call.counts = counts;
        call.dtype = static_cast<DType>(dtype);
        call.op = static_cast<ReduceOp>(op);
        call.algorithm = algorithm;
        call.chunks = chunks;
        call.root = root;
        call.send_counts = send_counts;
        call.recv_counts = recv_counts;
        call.reproducible = reproducible;
        if (on_device) call.counts_on_device = counts_from(*on_device);
        const int device = output.device;
        const std::uintptr_t stream = output.stream();
        const WithoutGil release;
        return make(c, first..., call, device, stream);
      },
      extra..., "kind"_a, "input"_a, "output"_a, "dtype"_a, "op"_a, "count"_a, "counts"_a, "algorithm"_a, "chunks"_a,
      "root"_a, "send_counts"_a, "recv_counts"_a, "reproducible"_a.none(), "counts_on_device"_a = nb::none());
}

/// Python takes as long to look at two tensors as all the rest of a call takes, so what leaves nothing to ask is made
/// in one step; false, with nothing done, for all else.
bool enqueue_at_once(Communicator& c, int kind, nb::handle input, nb::handle output, int op, nb::handle algorithm,
                     nb::handle chunks, int root, nb::handle reproducible) {
  Call call;
  call.kind = static_cast<Kind>(kind);
  call.op = static_cast<ReduceOp>(op);
  call.root = root;
  if (!nb::try_cast(algorithm, call.algorithm) || !nb::try_cast(chunks, call.chunks)) return false;
  if (!reproducible.is_none()) return false;
  const auto source = plain_device_buffer(input);
  if (!source) return false;
  const auto target = input.is(output) ? source : plain_device_buffer(output);
  if (!target || source->device != target->device || source->dtype != target->dtype) return false;
  if (!count_by_sizes(call, c, source->size, target->size)) return false;
  call.in = reinterpret_cast<const void*>(source->address);
  call.out = reinterpret_cast<void*>(target->address);
  call.dtype = static_cast<DType>(target->dtype);
  const OnStream where = on_stream(target->stream(), target->device);
  const WithoutGil release;
  c.enqueue(call, where);
  return true;
}

/// Let go of by any thread.
std::shared_ptr<void> kept(nb::object object) {
  return {new nb::object(std::move(object)), [](void* held) {
            if (!nb::is_alive()) return;  // the process ends
            const WithGil locked;
            delete static_cast<nb::object*>(held);
          }};
}

/// The same on other buffers.
ComposedOnGpu on(ComposedOnGpu call, std::uintptr_t input, std::uintptr_t output) {
  call.in = reinterpret_cast<const void*>(input);
  call.out = reinterpret_cast<void*>(output);
  return call;
}

/// Is it a send?, address, bytes, peer, tag.
using DeviceMessages = std::vector<std::tuple<bool, std::uintptr_t, std::size_t, int, std::int64_t>>;

std::vector<Transfer> transfers_of(const DeviceMessages& messages) {
  std::vector<Transfer> transfers;
  transfers.reserve(messages.size());
  for (const auto& [sends, address, bytes, peer, tag] : messages)
    transfers.push_back(
        {sends ? Transfer::Way::send : Transfer::Way::receive, reinterpret_cast<void*>(address), bytes, peer, tag});
  return transfers;
}

void bind_composed(nb::module_& m, nb::class_<Communicator>& communicator) {
  nb::class_<ComposedOnGpu>(m, "ComposedOnGpu", "A composition lowered for a GPU's memory, for any number of calls.")
      .def_prop_ro("plan", [](const ComposedOnGpu& call) { return call.program->plan(); })
      .def_prop_ro("program", [](const ComposedOnGpu& call) { return call.program->program(); })
      .def_prop_ro("scratch_bytes", [](const ComposedOnGpu& call) { return call.program->scratch_bytes(); });
  communicator
      .def(
          "enqueue_composed",
          [](Communicator& c, const ComposedOnGpu& call, std::uintptr_t input, std::uintptr_t output, int device,
             std::uintptr_t stream) {
            const WithoutGil release;
            c.enqueue(on(call, input, output), on_stream(stream, device));
          },
          "call"_a, "input"_a, "output"_a, "device"_a, "stream"_a)
      .def(
          "enqueue_composed_async",
          [](Communicator& c, const ComposedOnGpu& call, std::uintptr_t input, std::uintptr_t output, int device,
             std::uintptr_t stream) {
            const WithoutGil release;
            return c.enqueue(on(call, input, output), beside_stream(stream, device));
          },
          "call"_a, "input"_a, "output"_a, "device"_a, "stream"_a, nb::keep_alive<0, 1>());
}

void bind_slice_memory(nb::module_& m) {
  using peers::SliceMemory;
  nb::class_<SliceMemory>(m, "SliceMemory", "A GPU's buffer, as its owner and the owner's helpers see it.")
      .def(
          "__init__",
          [](SliceMemory* memory, const DeviceBuffer& buffer, std::size_t bytes) {
            const auto behind = reinterpret_cast<gpu::Stream>(buffer.stream());
            const WithoutGil release;
            new (memory) SliceMemory(gpu::Device::open(std::max(0, buffer.device)), buffer.address, bytes, behind);
          },
          "buffer"_a, "bytes"_a, "The owner's; waits for the stream.")
      .def(
          "__init__",
          [](SliceMemory* memory, const std::string& bus_id, const nb::bytes& handle, std::size_t offset) {
            gpu::IpcHandle known{};
            if (handle.size() != known.size()) throw UsageError("handle: " + std::to_string(handle.size()) + " bytes");
            std::memcpy(known.data(), handle.data(), known.size());
            const WithoutGil release;
            new (memory) SliceMemory(bus_id, known, offset);
          },
          "bus_id"_a, "handle"_a, "offset"_a, "A helper's.")
      .def_prop_ro("handle",
                   [](const SliceMemory& memory) { return nb::bytes(memory.handle().data(), memory.handle().size()); })
      .def_prop_ro("offset", &SliceMemory::offset)
      .def_prop_ro("bus_id", &SliceMemory::bus_id, "Of the GPU, which all processes of a host know by it.")
      .def_prop_ro("device", &SliceMemory::ordinal, "As this process counts its GPUs.")
      .def_prop_ro("address", &SliceMemory::address)
      .def_prop_ro("stream",
                   [](const SliceMemory& memory) { return reinterpret_cast<std::uintptr_t>(memory.stream()); })
      .def(
          "read",
          [](SliceMemory& memory, std::uintptr_t into, std::size_t at, std::size_t bytes) {
            memory.read(reinterpret_cast<std::byte*>(into), at, bytes);
          },
          "into"_a, "at"_a, "bytes"_a, nb::call_guard<WithoutGil>())
      .def(
          "write",
          [](SliceMemory& memory, std::uintptr_t from, std::size_t at, std::size_t bytes) {
            memory.write(reinterpret_cast<const std::byte*>(from), at, bytes);
          },
          "source"_a, "at"_a, "bytes"_a, nb::call_guard<WithoutGil>());
}

}  // namespace

void bind_gpu(nb::module_& m, nb::class_<Communicator>& communicator) {
  communicator.def("enqueue_at_once", &enqueue_at_once, "kind"_a, "input"_a.none(), "output"_a.none(), "op"_a,
                   "algorithm"_a.none(), "chunks"_a.none(), "root"_a = 0, "reproducible"_a = nb::none());
  def_enqueue(communicator, "enqueue", [](Communicator& c, const Call& call, int device, std::uintptr_t stream) {
    c.enqueue(call, on_stream(stream, device));
  });
  def_enqueue(
      communicator, "enqueue_async",
      [](Communicator& c, const Call& call, int device, std::uintptr_t stream) {
        return c.enqueue(call, beside_stream(stream, device));
      },
      nb::keep_alive<0, 1>());  // a work asks its communicator for the peers
  def_enqueue<int, int>(
      communicator, "enqueue_slice",
      [](Communicator& c, int index, int slices, Call call, int device, std::uintptr_t stream) {
        call.slice = {index, slices};
        c.enqueue(call, on_stream(stream, device));
      },
      "index"_a, "slices"_a);
  def_enqueue<int, int>(
      communicator, "enqueue_slice_async",
      [](Communicator& c, int index, int slices, Call call, int device, std::uintptr_t stream) {
        call.slice = {index, slices};
        return c.enqueue(call, beside_stream(stream, device));
      },
      "index"_a, "slices"_a, nb::keep_alive<0, 1>());
  communicator
      .def(
          "enqueue_messages",
          [](Communicator& c, const DeviceMessages& messages, int device, std::uintptr_t stream) {
            const WithoutGil release;
            c.enqueue(transfers_of(messages), on_stream(stream, device));
          },
          "messages"_a, "device"_a, "stream"_a, "Each: is it a send, its address, its bytes, the peer, the tag.")
      .def(
          "enqueue_messages_async",
          [](Communicator& c, const DeviceMessages& messages, int device, std::uintptr_t stream) {
            const WithoutGil release;
            return c.enqueue(transfers_of(messages), beside_stream(stream, device));
          },
          "messages"_a, "device"_a, "stream"_a, nb::keep_alive<0, 1>());
  bind_composed(m, communicator);
  communicator.def(
      "open_gpu", [](Communicator& c, int device) { c.gpu().open(device); }, "device"_a, nb::call_guard<WithoutGil>(),
      "Of later calls, where it is not open. Collective.");
  communicator.def(
      "synchronize", [](Communicator& c) { c.gpu().synchronize(raise_signals); }, nb::call_guard<WithoutGil>());

  communicator.def(
      "symmetric_allocate",
      [](Communicator& c, int device, std::size_t bytes) { return c.gpu().allocate_symmetric(device, bytes); },
      "device"_a, "bytes"_a, nb::call_guard<WithoutGil>());

  nb::class_<peers::SharedMemory>(m, "SymmetricMemory", "Memory of equal size on the GPUs of all ranks.")
      .def_prop_ro("address", &peers::SharedMemory::own)
      .def_prop_ro("bytes", &peers::SharedMemory::bytes);
  communicator
      .def(
          "open_window",
          [](Communicator& c, std::shared_ptr<peers::WindowMemory> memory) {
            return c.gpu().open_window(std::move(memory));
          },
          "memory"_a, nb::call_guard<WithoutGil>(), "Not collective. False where it is of no use.")
      .def(
          "gpu_messages", [](Communicator& c) { return c.gpu().where_messages_lie(); }, nb::call_guard<WithoutGil>())
      .def(
          "calls_by_windows", [](Communicator& c) { return c.gpu().calls_by_windows(); }, nb::call_guard<WithoutGil>(),
          "How many calls have gone from windows to windows, of what has run.");
  nb::class_<peers::WindowMemory>(m, "WindowMemory", "Memory of this rank's GPU that peers may map.")
      .def(
          "__init__",
          [](peers::WindowMemory* memory, int device, std::size_t bytes) {
            new (memory) peers::WindowMemory(gpu::Device::open(device), bytes);
          },
          "device"_a, "bytes"_a)
      .def(
          "__init__",
          [](peers::WindowMemory* memory, int device, std::uintptr_t begin, std::size_t bytes, nb::object keep) {
            new (memory) peers::WindowMemory(gpu::Device::open(device), begin, bytes, kept(std::move(keep)));
          },
          "device"_a, "begin"_a, "bytes"_a, "keep"_a, "Memory that is there, and that `keep` keeps.")
      .def_prop_ro("address", &peers::WindowMemory::begin)
      .def_prop_ro("bytes", &peers::WindowMemory::bytes)
      .def("retire", &peers::WindowMemory::retire, nb::call_guard<WithoutGil>());
  bind_slice_memory(m);
  nb::class_<DeviceWork>(m, "DeviceWork", "A call under way on a stream of the communicator's own.")
      .def(
          "wait", [](const DeviceWork& w, std::uintptr_t stream) { w.order(reinterpret_cast<void*>(stream)); },
          "stream"_a)
      .def("is_completed", &DeviceWork::done)
      .def("synchronize", [](const DeviceWork& w) { w.synchronize(raise_signals); }, nb::call_guard<WithoutGil>());
}

}  // namespace lanecast
