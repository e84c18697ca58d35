// SPDX-License-Identifier: Apache-2.0
#include "plain_puts.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/agreed.h"
#include "base/error.h"

namespace lanecast::emulated {
namespace {

constexpr std::size_t kStaging = 1 << 20;
constexpr std::uint64_t kLooks_ns = 10'000'000;  // after processes that may have ended

GpuSpan named(const gpu::DeviceMemory& memory, const gpu::Device& device) {
  GpuSpan span;
  span.vendor = device.driver().vendor();
  span.memory = {reinterpret_cast<std::byte*>(memory.address()), memory.bytes()};
  span.handle = memory.ipc_handle();
  device.pci_bus_id().copy(span.bus_id.data(), span.bus_id.size() - 1);
  return span;
}

}  // namespace

PlainPuts::PlainPuts(const Bootstrap& bootstrap, const std::string& folder, const std::string& host, int device,
                     std::size_t bytes)
    : port_(bootstrap, folder, host),
      device_(gpu::Device::open(device)),
      out_(device_, bytes),
      in_(device_, bytes),
      words_(device_, sizeof(std::uint32_t) * static_cast<std::size_t>(bootstrap.size)),
      staging_(device_, kStaging),
      stream_(device_) {
  const Keys mine = agreed(bootstrap, [&] {
    const auto key_of = [&](const gpu::DeviceMemory& memory) {
      const GpuSpan span = named(memory, *device_);
      port_.enroll(span);
      return *port_.find(span.memory.data);
    };
    out_key_ = key_of(out_);
    return Keys{key_of(in_), key_of(words_)};
  });
  keys_.resize(static_cast<std::size_t>(bootstrap.size));
  bootstrap.all_gather(&mine, keys_.data(), sizeof mine);
}

void PlainPuts::put(int peer, std::size_t offset, std::size_t bytes, std::uint32_t word) {
  const Ring<NicWork> works = port_.works(peer, Queue::puts);
  NicWork* work = nullptr;
  while (!(work = works.to_write()))
    if (done()) throw InternalError("a ring without works has no room");
  *work = {.posted_ns = now_ns(), .put = {.from = out_key_, .to = keys_[peer].in, .bytes = bytes}};
  work->put.to.offset += offset;
  if (word != 0) {
    work->word = {.at = keys_[peer].words, .value = word, .wanted = true};
    work->word.at.offset += sizeof word * static_cast<std::size_t>(port_.rank());
  }
  works.push();
  port_.ring();
}

double PlainPuts::time(int peer, std::size_t bytes, int puts) {
  const std::uint64_t begin = now_ns();
  for (int k = 0; k < puts; ++k) put(peer, 0, bytes, static_cast<std::uint32_t>(k + 1));
  while (!done()) continue;
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

bool PlainPuts::done() {
  bool all = true;
  for (int peer = 0; peer < port_.size(); ++peer) all &= port_.works(peer, Queue::puts).empty();
  const std::uint64_t now = now_ns();
  if (all || now - looked_ns_ < kLooks_ns) return all;
  looked_ns_ = now;
  for (int peer = 0; peer < port_.size(); ++peer)
    if (const std::string trouble = peer == port_.rank() ? "" : port_.trouble(peer); !trouble.empty())
      throw TransportError("puts to rank " + std::to_string(peer) + ": " + trouble);
  std::this_thread::yield();
  return false;
}

void PlainPuts::fill(std::span<const std::byte> content) {
  const gpu::Device::Current current(*device_);
  for (std::size_t from = 0; from < content.size(); from += kStaging) {
    const std::size_t bytes = std::min(kStaging, content.size() - from);
    std::ranges::copy(content.subspan(from, bytes), staging_.host());
    device_->check(device_->driver().copy(out_.address() + from, staging_.device(), bytes, stream_.get()),
                   "cuMemcpyAsync");
    device_->check(device_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
  }
}

std::vector<std::byte> PlainPuts::read(gpu::Address from, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  std::vector<std::byte> content;
  while (content.size() < bytes) {
    const std::size_t part = std::min(kStaging, bytes - content.size());
    device_->check(device_->driver().copy(staging_.device(), from + content.size(), part, stream_.get()),
                   "cuMemcpyAsync");
    device_->check(device_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
    content.insert(content.end(), staging_.host(), staging_.host() + part);
  }
  return content;
}

std::vector<std::byte> PlainPuts::come(std::size_t offset, std::size_t bytes) {
  return read(in_.address() + offset, bytes);
}

std::uint32_t PlainPuts::word_of(int rank) {
  const std::vector<std::byte> bytes =
      read(words_.address() + sizeof(std::uint32_t) * static_cast<std::size_t>(rank), sizeof(std::uint32_t));
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

}  // namespace lanecast::emulated
