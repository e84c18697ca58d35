// SPDX-License-Identifier: Apache-2.0
// A transport whose messages are numbered requests, as Python sees it: progress() returns the numbers of those that
// have finished.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gil.h"
#include "plan_dict.h"
#include "transport/transport.h"

namespace lanecast {

using Buffer = nanobind::ndarray<nanobind::c_contig, nanobind::device::cpu>;
using ConstBuffer = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
using PyConsumer = std::function<void(std::size_t, nanobind::bytes)>;

class CallingConsumer final : public Consumer {
 public:
  explicit CallingConsumer(PyConsumer call) : call_(std::move(call)) {}
  void consume(std::size_t offset, const std::byte* data, std::size_t bytes) override {
    const WithGil gil;
    call_(offset, nanobind::bytes(data, bytes));
  }

 private:
  PyConsumer call_;
};

/// A message with everything it points to.
struct PostedMessage {
  std::size_t number;
  Message message;
  std::vector<Span> spans;
  nanobind::object buffers;  // keeps the memory alive
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

  std::size_t send(int peer, std::uint64_t tag, const nanobind::object& buffers, std::uint32_t stamp,
                   std::string_view kind) {
    return post<ConstBuffer>(peer, tag, buffers, stamp, kind, &Transport::post_send);
  }

  std::size_t receive(int peer, std::uint64_t tag, const nanobind::object& buffers, std::uint32_t stamp,
                      std::string_view kind) {
    return post<Buffer>(peer, tag, buffers, stamp, kind, &Transport::post_recv);
  }

  std::size_t consume(int peer, std::uint64_t tag, std::size_t bytes, PyConsumer consumer, std::string_view kind) {
    PostedMessage& request = add(peer, tag, {}, kind);
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
  template <class Array>
  std::size_t post(int peer, std::uint64_t tag, const nanobind::object& buffers, std::uint32_t stamp,
                   std::string_view kind, void (Transport::*how)(Message&)) {
    PostedMessage& request = add(peer, tag, spans_of(nanobind::cast<std::vector<Array>>(buffers)), kind);
    request.message.stamp = stamp;
    request.buffers = buffers;
    const WithoutGil release;
    (get().*how)(request.message);
    return request.number;
  }

  PostedMessage& add(int peer, std::uint64_t tag, std::vector<Span> spans, std::string_view kind) {
    if (!get().reaches(peer)) throw UsageError("this transport does not reach rank " + std::to_string(peer));
    auto request = std::make_unique<PostedMessage>();
    request->number = next_++;
    request->spans = std::move(spans);
    request->message = {peer, tag, 0, request->spans, nullptr};
    if (!kind.empty()) request->message.kind = kind_named(kind);
    request->message.passed_on = tag % 2 == 1;  // so that some are
    for (const Span& span : request->spans) request->message.bytes += span.bytes;
    PostedMessage& added = *request;
    requests_.emplace(&added.message, std::move(request));
    return added;
  }

  std::unordered_map<const Message*, std::unique_ptr<PostedMessage>> requests_;
  std::size_t next_ = 0;
  std::unique_ptr<Transport> transport_;
};

void bind_open_transport(nanobind::module_& m);

}  // namespace lanecast
