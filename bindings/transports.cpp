// SPDX-License-Identifier: Apache-2.0
// Transports by themselves, for the conformance suite and for looking at one message at a time. Requests are numbered;
// progress() returns the numbers of those that have finished.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings.h"
#include "gil.h"
#include "runtime/options.h"
#include "transport/loopback/transport.h"
#include "transport/mpi/communicator.h"
#include "transport/mpi/mpi.h"
#include "transport/shm/transport.h"
#include "transport/ucx/transport.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Buffer = nb::ndarray<nb::c_contig, nb::device::cpu>;
using ConstBuffer = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using PyConsumer = std::function<void(std::size_t, nb::bytes)>;

class CallingConsumer final : public Consumer {
 public:
  explicit CallingConsumer(PyConsumer call) : call_(std::move(call)) {}
  void consume(std::size_t offset, const std::byte* data, std::size_t bytes) override {
    const WithGil gil;
    call_(offset, nb::bytes(data, bytes));
  }

 private:
  PyConsumer call_;
};

/// A message with everything it points to.
struct Request {
  std::size_t number;
  Message message;
  std::vector<Span> spans;
  nb::object buffers;  // keeps the memory alive
  std::unique_ptr<CallingConsumer> consumer;
};

template <class Array>
std::vector<Span> spans_of(const std::vector<Array>& buffers) {
  std::vector<Span> spans;
  for (const Array& buffer : buffers)
    spans.push_back({const_cast<std::byte*>(static_cast<const std::byte*>(buffer.data())), buffer.nbytes()});
  return spans;
}

class OpenTransport {
 public:
  explicit OpenTransport(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  ~OpenTransport() { close(); }

  Transport& get() {
    if (!transport_) throw UsageError("this transport is closed");
    return *transport_;
  }

  std::size_t send(int peer, std::uint64_t tag, const nb::object& buffers, std::uint32_t stamp) {
    Request& request = add(peer, tag, spans_of(nb::cast<std::vector<ConstBuffer>>(buffers)));
    request.message.stamp = stamp;
    request.buffers = buffers;
    const WithoutGil release;
    get().post_send(request.message);
    return request.number;
  }

  std::size_t receive(int peer, std::uint64_t tag, const nb::object& buffers, std::uint32_t stamp) {
    Request& request = add(peer, tag, spans_of(nb::cast<std::vector<Buffer>>(buffers)));
    request.message.stamp = stamp;
    request.buffers = buffers;
    const WithoutGil release;
    get().post_recv(request.message);
    return request.number;
  }

  std::size_t consume(int peer, std::uint64_t tag, std::size_t bytes, PyConsumer consumer) {
    Request& request = add(peer, tag, {});
    request.consumer = std::make_unique<CallingConsumer>(std::move(consumer));
    request.message.bytes = bytes;
    request.message.consumer = request.consumer.get();
    const WithoutGil release;
    get().post_recv(request.message);
    return request.number;
  }

  std::vector<std::size_t> progress() {
    std::vector<Message*> done;
    {
      const WithoutGil release;
      get().progress(done);
    }
    std::vector<std::size_t> numbers;
    for (const Message* message : done) {
      const auto request = requests_.find(message);
      numbers.push_back(request->second->number);
      requests_.erase(request);
    }
    return numbers;
  }

  void close() {
    const WithoutGil release;  // closing waits for receivers that are copying, and they may want the GIL
    transport_.reset();
  }

 private:
  Request& add(int peer, std::uint64_t tag, std::vector<Span> spans) {
    if (!get().reaches(peer)) throw UsageError("this transport does not reach rank " + std::to_string(peer));
    auto request = std::make_unique<Request>();
    request->number = next_++;
    request->spans = std::move(spans);
    request->message = {peer, tag, 0, request->spans, nullptr};
    for (const Span& span : request->spans) request->message.bytes += span.bytes;
    Request& added = *request;
    requests_.emplace(&added.message, std::move(request));
    return added;
  }

  std::unordered_map<const Message*, std::unique_ptr<Request>> requests_;
  std::size_t next_ = 0;
  std::unique_ptr<Transport> transport_;
};

/// What ranks tell each other beside messages; in C++ it is the executor that does.
void bind_telling(nb::class_<OpenTransport>& transport) {
  transport
      .def(
          "publish",
          [](OpenTransport& t, std::uint64_t sequence, std::uint64_t chain, const std::string& text) {
            CallNote note{.communicator = 1, .sequence = sequence, .chain = chain};
            text.copy(note.text.data(), note.text.size() - 1);
            t.get().publish(note);
          },
          "sequence"_a, "chain"_a, "text"_a)
      .def(
          "published",
          [](OpenTransport& t, int peer, std::uint64_t sequence) {
            const auto note = t.get().published(peer, sequence);
            return note ? std::optional(std::pair(note->chain, std::string(note->text.data()))) : std::nullopt;
          },
          "peer"_a, "sequence"_a, "(chain, text) of the peer's call, or None: it may take a few looks.")
      .def(
          "publish_wait",
          [](OpenTransport& t, const std::vector<int>& peers) { t.get().publish_wait(peers, /*may_be_asked=*/true); },
          "peers"_a)
      .def(
          "waiting",
          [](OpenTransport& t, int peer, double silent_s) {
            const auto waiting = t.get().waiting(peer, silent_s);
            return waiting ? std::optional(std::pair(waiting->peers, waiting->age_s)) : std::nullopt;
          },
          "peer"_a, "silent_s"_a, "(peers that it waits for, seconds since it has said so), or None.")
      .def(
          "want",
          [](OpenTransport& t, int peer, std::uint64_t bytes, std::uint64_t tag) {
            t.get().want(peer, {.of = Want::Of::receive, .bytes = bytes, .tag = tag, .behind = {}});
          },
          "peer"_a, "bytes"_a, "tag"_a)
      .def(
          "wanted",
          [](OpenTransport& t, int peer) {
            const auto want = t.get().wanted(peer);
            return want ? std::optional(std::pair(want->bytes, want->tag)) : std::nullopt;
          },
          "peer"_a, "(bytes, tag) of what the peer wants, or None.")
      .def(
          "tell", [](OpenTransport& t) { return t.get().tell(); }, nb::call_guard<WithoutGil>(),
          "After abort(): is a peer still to be told?")
      .def(
          "given_up", [](OpenTransport& t) { return t.get().given_up(); }, nb::call_guard<WithoutGil>(),
          "A peer that has given up and said so, or None.");
}

using PyAllGather = std::function<nb::bytes(nb::bytes)>;

Bootstrap bootstrap_from(int rank, int size, const PyAllGather& all_gather) {
  return {rank, size, [all_gather, size](const void* in, void* out, std::size_t bytes) {
            const WithGil gil;
            const nb::bytes all = all_gather(nb::bytes(in, bytes));
            if (all.size() != bytes * size) throw UsageError("all_gather returned a wrong number of bytes");
            std::memcpy(out, all.data(), all.size());
          }};
}

nb::bytes gathered(const Bootstrap& bootstrap, const nb::bytes& mine) {
  std::string all(mine.size() * bootstrap.size, '\0');
  {
    const WithoutGil release;
    bootstrap.all_gather(mine.data(), all.data(), mine.size());
  }
  return nb::bytes(all.data(), all.size());
}

ShmOptions shm_options_from(const std::map<std::string, std::size_t>& given) {
  ShmOptions options;
  for (const auto& [name, value] : given) {
    if (name == "ring_bytes")
      options.ring_bytes = value;
    else if (name == "eager_bytes")
      options.eager_bytes = value;
    else if (name == "fragment_bytes")
      options.fragment_bytes = value;
    else if (name == "single_copy")
      options.single_copy = value ? SingleCopy::on : SingleCopy::off;
    else
      throw UsageError("shared memory has no option '" + name + "'");
  }
  return options;
}

}  // namespace

void bind_transports(nb::module_& m) {
  nb::class_<OpenTransport> transport(m, "Transport", "Tagged messages between ranks; see src/transport/transport.h.");
  transport.def_prop_ro("name", [](OpenTransport& t) { return t.get().name(); })
      .def_prop_ro("max_tag", [](OpenTransport& t) { return t.get().max_tag(); })
      .def_prop_ro("scatters", [](OpenTransport& t) { return t.get().scatters(); })
      .def_prop_ro("consumes", [](OpenTransport& t) { return t.get().consumes(); })
      .def_prop_ro("compares_stamps", [](OpenTransport& t) { return t.get().compares_stamps(); })
      .def(
          "reaches", [](OpenTransport& t, int peer) { return t.get().reaches(peer); }, "peer"_a)
      .def("send", &OpenTransport::send, "peer"_a, "tag"_a, "buffers"_a, "stamp"_a = 0)
      .def("receive", &OpenTransport::receive, "peer"_a, "tag"_a, "buffers"_a, "stamp"_a = 0)
      .def("consume", &OpenTransport::consume, "peer"_a, "tag"_a, "bytes"_a, "consumer"_a,
           "Receive by calling consumer(offset, data) for each piece.")
      .def("progress", &OpenTransport::progress, "Move what can be moved; the numbers of the finished requests.")
      .def(
          "arrived", [](OpenTransport& t, int peer, std::uint64_t tag) { return t.get().arrived(peer, tag); }, "peer"_a,
          "tag"_a, nb::call_guard<WithoutGil>(), "Has a message come that no receive has met?")
      .def(
          "abort", [](OpenTransport& t, const std::string& why) { t.get().abort({FailureKind::user, why}); },
          "why"_a = "", nb::call_guard<WithoutGil>())
      .def(
          "lost", [](OpenTransport& t, int peer) { return t.get().lost(peer).str(); }, "peer"_a,
          nb::call_guard<WithoutGil>(), "Why the peer can no longer answer, or ''.")
      .def("close", &OpenTransport::close);
  bind_telling(transport);

  m.def(
      "open_loopback",
      [](const std::shared_ptr<LoopbackWorld>& world, int rank, std::uint64_t channel) {
        return std::make_unique<OpenTransport>(std::make_unique<LoopbackTransport>(world, rank, channel));
      },
      "world"_a, "rank"_a, "channel"_a = 0);
  m.def(
      "world_all_gather",
      [](const std::shared_ptr<LoopbackWorld>& world, int rank, const nb::bytes& mine) {
        return gathered(world->bootstrap(rank), mine);
      },
      "world"_a, "rank"_a, "mine"_a, "The bootstrap of ranks that are threads.");
  m.def(
      "open_shm",
      [](int rank, int size, const PyAllGather& all_gather, const std::vector<int>& local_ranks,
         const std::map<std::string, std::size_t>& options) {
        const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
        const ShmOptions parsed = shm_options_from(options);
        const WithoutGil release;
        return std::make_unique<OpenTransport>(std::make_unique<ShmTransport>(bootstrap, local_ranks, parsed));
      },
      "rank"_a, "size"_a, "all_gather"_a, "local_ranks"_a, "options"_a = std::map<std::string, std::size_t>{},
      "Collective. Options are those of ShmOptions; single_copy is 0 (off) or 1 (on), automatic when left out.");
  m.def(
      "open_ucx",
      [](int rank, int size, const PyAllGather& all_gather) {
        const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
        const WithoutGil release;
        return std::make_unique<OpenTransport>(std::make_unique<UcxTransport>(bootstrap));
      },
      "rank"_a, "size"_a, "all_gather"_a, "Collective.");
  m.def(
      "ucx", [] { return std::tuple(ucx::Ucp::loaded().version(), ucx::Ucp::loaded().path()); },
      "(version, path) of UCX; UsageError where there is none.");
  m.def(
      "open_mpi",
      [](const std::shared_ptr<MpiApi>& mpi) {
        auto comm = MpiCommunicator::duplicate(mpi, mpi->world(), {kTimeout_s, {}});
        return std::make_unique<OpenTransport>(std::make_unique<MpiTransport>(std::move(comm)));
      },
      "mpi"_a, nb::call_guard<WithoutGil>(), "Collective over all ranks of the job.");
  m.def(
      "mpi_world",
      [](const std::shared_ptr<MpiApi>& mpi) {
        const std::shared_ptr<const MpiCommunicator> comm =
            MpiCommunicator::duplicate(mpi, mpi->world(), {kTimeout_s, {}});
        const Bootstrap bootstrap = mpi_bootstrap(comm);
        const auto all_gather = [bootstrap](const nb::bytes& mine) { return gathered(bootstrap, mine); };
        return std::tuple(comm->rank(), comm->size(), PyAllGather(all_gather));
      },
      "mpi"_a, "(rank, size, all_gather) of this process. Collective over all ranks of the job.");
}

}  // namespace lanecast
