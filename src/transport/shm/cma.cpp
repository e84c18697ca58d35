// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/cma.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "base/copy.h"
#include "base/error.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kSpansPerCall = 128;  // fits the stack; the system's own limit is 1024

struct SpanList {
  std::array<iovec, kSpansPerCall> spans;
  std::size_t count = 0;
  std::size_t bytes = 0;
};

SpanList next_spans(SpanCursor& cursor, std::size_t bytes) {
  SpanList list;
  while (list.bytes < bytes && list.count < kSpansPerCall) {
    const Span piece = cursor.take(bytes - list.bytes);
    list.spans[list.count++] = {piece.data, piece.bytes};
    list.bytes += piece.bytes;
  }
  return list;
}

template <class Copy>
double fastest_of_three_s(const Copy& copy) {
  double fastest = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

}  // namespace

std::size_t read_remote(int pid, SpanCursor& local, SpanCursor& remote, std::size_t bytes) {
  // As much as both lists can name in one call; found on copies of the cursors.
  SpanCursor local_ahead = local, remote_ahead = remote;
  bytes = next_spans(local_ahead, next_spans(remote_ahead, bytes).bytes).bytes;

  const SpanList from = next_spans(remote, bytes), to = next_spans(local, bytes);
  const ssize_t got = process_vm_readv(pid, to.spans.data(), to.count, from.spans.data(), from.count, 0);
  if (got == static_cast<ssize_t>(bytes)) return bytes;
  if (got < 0 && errno == ESRCH) return 0;
  const std::string cause = got < 0 ? std::generic_category().message(errno) : std::to_string(got) + " came";
  throw TransportError("reading " + std::to_string(bytes) + " bytes of process " + std::to_string(pid) +
                       " failed: " + cause + "; see whether it lives");
}

bool single_copy_is_faster(int pid, std::byte* address, std::size_t bytes, std::size_t ring_bytes) {
  // As in very large messages: what is sent and received is in no cache, the rings are as far as they fit. In a
  // collective every core does both copies of the two, one for what it sends and one for what it receives.
  const std::size_t copies = std::max<std::size_t>(4, ring_bytes / bytes);
  const std::size_t rings = std::max<std::size_t>(1, ring_bytes / bytes);
  std::vector<std::byte> near(copies * bytes), ring(rings * bytes), source(copies * bytes);
  const Span there{address, bytes};
  const double once_s = fastest_of_three_s([&] {
    for (std::size_t k = 0; k < copies; ++k) {
      const Span here{near.data() + k * bytes, bytes};
      SpanCursor local({&here, 1}), remote({&there, 1});
      if (read_remote(pid, local, remote, bytes) == 0)
        throw TransportError("process " + std::to_string(pid) + " has ended already");
    }
  });
  const double twice_s = fastest_of_three_s([&] {
    for (std::size_t k = 0; k < copies; ++k) {
      std::byte* const through = ring.data() + k % rings * bytes;
      std::memcpy(through, source.data() + k * bytes, bytes);
      copy(near.data() + k * bytes, through, bytes, Stores::bypassing);
    }
    wait_for_stores(Stores::bypassing);
  });
  return once_s < twice_s;
}

}  // namespace lanecast::shm
