// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/cma.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

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

bool write_remote(int pid, SpanCursor& local, std::byte* remote, std::size_t bytes) {
  while (bytes > 0) {
    const SpanList from = next_spans(local, bytes);
    const iovec to{remote, from.bytes};
    const ssize_t put = process_vm_writev(pid, from.spans.data(), from.count, &to, 1, 0);
    if (put != static_cast<ssize_t>(from.bytes)) return false;
    remote += from.bytes;
    bytes -= from.bytes;
  }
  return true;
}

}  // namespace lanecast::shm
