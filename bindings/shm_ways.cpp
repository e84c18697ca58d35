// SPDX-License-Identifier: Apache-2.0
// A rank's choices between streaming and reading over shared memory, for tests: with times that these make up.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <memory>

#include "bindings.h"
#include "transport/shm/way.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

Message message(std::size_t bytes, std::uint64_t tag) {
  Message made;
  made.tag = tag;
  made.bytes = bytes;
  return made;
}

/// A rank with its board, which others of its host may go by.
struct ShmWays {
  ShmWays(const ShmWays* first, std::size_t peers) : ways(*board, first ? first->board.get() : nullptr, peers) {}
  std::shared_ptr<shm::WayBoard> board = std::make_shared<shm::WayBoard>();
  shm::Ways ways;
};

}  // namespace

void bind_shm_ways(nb::module_& m) {
  nb::class_<ShmWays>(m, "ShmWays", "See src/transport/shm/way.h. first: the host's first rank, None on that itself.")
      .def(nb::init<const ShmWays*, std::size_t>(), "first"_a.none(), "peers"_a, nb::keep_alive<1, 2>())
      .def(
          "choose",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag) {
            return rank.ways.choose(message(bytes, tag)) == shm::ShmWay::read ? "read" : "stream";
          },
          "bytes"_a, "tag"_a)
      .def(
          "begins",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::int64_t now_ns) {
            rank.ways.begins(message(bytes, tag), now_ns);
          },
          "bytes"_a, "tag"_a, "now_ns"_a)
      .def(
          "ended",
          [](ShmWays& rank, std::size_t bytes, std::uint64_t tag, std::optional<bool> read, std::int64_t now_ns) {
            const shm::ShmWay alone = read.value_or(false) ? shm::ShmWay::read : shm::ShmWay::stream;
            rank.ways.ended(message(bytes, tag), read ? alone : shm::ShmWay::undecided, now_ns);
          },
          "bytes"_a, "tag"_a, "read"_a.none(), "now_ns"_a, "read: None of a message that others share.");
  m.def(
      "shm_is_worth_a_choice",
      [](std::size_t bytes, std::uint64_t tag) { return shm::is_worth_a_choice(message(bytes, tag)); }, "bytes"_a,
      "tag"_a);
}

}  // namespace lanecast
