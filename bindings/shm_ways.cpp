// SPDX-License-Identifier: Apache-2.0
// A rank's choices between streaming and reading over shared memory, for tests: with times that these make up.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <memory>

#include "bindings.h"
#include "plan_dict.h"
#include "transport/shm/way.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

Message message(std::size_t bytes, std::uint64_t tag, std::string_view kind = "", int peer = 0,
                std::uint32_t stamp = 0) {
  Message made;
  made.peer = peer;
  made.tag = tag;
  made.bytes = bytes;
  if (!kind.empty()) made.kind = kind_named(kind);
  made.stamp = stamp;
  return made;
}

/// A rank with its board, which others of its host may go by.
struct ShmWays {
  explicit ShmWays(const ShmWays* first) : ways(*board, first ? first->board.get() : nullptr) {}
  std::shared_ptr<shm::WayBoard> board = std::make_shared<shm::WayBoard>();
  shm::Ways ways;
  std::int64_t begun_ns = 0, now_ns = 1;  // of the last message that came; by a clock that tests set
};

}  // namespace

void bind_shm_ways(nb::module_& m) {
  nb::class_<ShmWays>(m, "ShmWays", "See src/transport/shm/way.h. first: the host's first rank, None on that itself.")
      .def(nb::init<const ShmWays*>(), "first"_a.none(), nb::keep_alive<1, 2>())
      .def(
          "choose",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::string_view kind, int sender,
             std::uint32_t stamp) {
            const Message awaited = message(bytes, tag, kind, sender, stamp);
            return rank.ways.choose(awaited) == shm::ShmWay::read ? "read" : "stream";
          },
          "bytes"_a, "tag"_a, "kind"_a = "", "sender"_a = 0, "stamp"_a = 0)
      .def(
          "choose_to_send",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, int receiver) {
            return rank.ways.choose_to_send(message(bytes, tag, "", receiver)) == shm::ShmWay::read ? "read" : "stream";
          },
          "bytes"_a, "tag"_a, "receiver"_a = 0)
      .def(
          "was_to_be_read",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag) {
            return rank.ways.was_to_be_read(message(bytes, tag));
          },
          "bytes"_a, "tag"_a)
      .def(
          "wants_time",
          [](const ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::string_view kind, int peer) {
            return rank.ways.wants_time(message(bytes, tag, kind, peer));
          },
          "bytes"_a, "tag"_a, "kind"_a = "", "peer"_a = 0)
      .def(
          "wants_time_to_send",
          [](const ShmWays& rank, std::size_t bytes, std::uint64_t tag, int peer) {
            return rank.ways.wants_time_to_send(message(bytes, tag, "", peer));
          },
          "bytes"_a, "tag"_a, "peer"_a = 0)
      .def(
          "received",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, bool read, std::optional<std::int64_t> ns,
             std::optional<std::size_t> part, std::optional<std::int64_t> all_ns, bool declined, int sender,
             bool beside, std::uint32_t stamp, std::string_view kind) {
            const Message came = message(bytes, tag, kind, sender, stamp);
            if (!beside) rank.begun_ns = rank.now_ns;
            rank.now_ns += all_ns ? *all_ns : ns.value();
            const shm::Took took{rank.ways.ended(came, 0, rank.begun_ns, rank.now_ns), ns};
            rank.ways.receives(came, bytes);
            read ? rank.ways.read(came, part.value_or(bytes), took) : rank.ways.streamed(came, declined, took);
          },
          "bytes"_a, "tag"_a, "read"_a, "ns"_a, "part"_a = nb::none(), "all_ns"_a = nb::none(), "declined"_a = false,
          "sender"_a = 0, "beside"_a = false, "stamp"_a = 0, "kind"_a = "",
          "ns: that its copies took; None where nobody looked at the clock. part: the bytes that it has read itself. "
          "all_ns: since the message before it; None: ns. declined: it was streamed though it was to be read. beside: "
          "it began together with the one before it.")
      .def(
          "shared",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, int sender) {
            rank.ways.shared(message(bytes, tag, "", sender));
          },
          "bytes"_a, "tag"_a, "sender"_a = 0, "It came through an outbox, for others as well.")
      .def(
          "sent",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::int64_t ns, std::uint32_t stamp) {
            const Message left = message(bytes, tag, "", 0, stamp);
            rank.ways.sends(left);
            rank.ways.sent(left, ns);
          },
          "bytes"_a, "tag"_a, "ns"_a, "stamp"_a = 0, "ns: that its copies into the ring took.")
      .def(
          "written",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::size_t part, std::int64_t ns) {
            const Message left = message(bytes, tag);
            rank.ways.sends(left);
            rank.ways.written(left, part, ns);
          },
          "bytes"_a, "tag"_a, "part"_a, "ns"_a, "part: the bytes that it has written, as the sender.");
  m.def(
      "shm_is_worth_a_choice",
      [](std::size_t bytes, std::uint64_t tag, std::string_view kind) {
        return shm::is_worth_a_choice(message(bytes, tag, kind));
      },
      "bytes"_a, "tag"_a, "kind"_a);
}

}  // namespace lanecast
