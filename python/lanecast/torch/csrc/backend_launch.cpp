// SPDX-License-Identifier: Apache-2.0
// How calls are checked and launched, and several as one.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "backend.h"
#include "joined_work.h"

namespace lanecast_torch {

c10::Device Backend::place_of(const Launch& what) const {
  const at::Tensor* first = nullptr;
  std::string where;
  const auto look = [&](const char* argument, const Tensors& tensors) {
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (!tensors[k].defined()) continue;  // refused later, by its name
      const std::string here = std::string(argument) + "[" + std::to_string(k) + "]";
      if (!first) {
        first = &tensors[k];
        where = here;
      }
      TORCH_CHECK_VALUE(tensors[k].device() == first->device(), what.title, ": rank ", getRank(), ": ", where,
                        " is on ", first->device(), ", ", here, " on ", tensors[k].device(),
                        ": all tensors of a call have to be on one device");
    }
  };
  look("inputs", what.inputs);
  look("outputs", what.outputs);
  return first ? first->device() : c10::Device(c10::kCPU);
}

Work::Call Backend::describe(const Launch& what) {
  const bool message = c10d::isP2POp(what.type);
  // Relaxed: a number for people, in the order of this thread's calls.
  const std::uint64_t sequence = message ? 0 : sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  // Tools count calls in a profile by the name that the program has asked for.
  const std::string title = options_->name + std::string(what.title).substr(std::string_view(kName).size());
  return {getRank(), what.type, title, what.inputs, what.outputs, sequence, watch_};
}

c10::intrusive_ptr<HostWork> Backend::make_host_work(const Launch& what) {
  return c10::make_intrusive<HostWork>(describe(what), !what.async && !coalesced_);
}

c10::intrusive_ptr<Work> Backend::make_work(const Launch& what) {
  const c10::Device device = place_of(what);
  if (!device.is_cuda()) return make_host_work(what);
  const c10::Stream stream =
      what.async ? engine_->own_stream(device) : c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return c10::make_intrusive<DeviceWork>(describe(what), engine_, stream);
}

WorkPtr Backend::launch(const Launch& what, const std::function<void(Work&)>& start) {
  const c10::intrusive_ptr<Work> work = make_work(what);
  work->launch(start);
  return keep_if_coalescing(work);
}

WorkPtr Backend::launch_on_host(const Launch& what, const std::function<void(HostWork&)>& start) {
  const auto work = make_host_work(what);
  work->launch([&](Work&) { start(*work); });
  return keep_if_coalescing(work);
}

void Backend::check_root(const char* call, std::int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < getSize(), "lanecast: ", call, ": root rank ", root, ": the group has ranks 0 ",
                    "to ", getSize() - 1);
}

void Backend::check_one_for_each_rank(const char* call, const char* argument, const TensorLists& lists) const {
  TORCH_CHECK_VALUE(lists.size() == 1, "lanecast: ", call, ": ", argument, ": expected one list of tensors, got ",
                    lists.size());
  TORCH_CHECK_VALUE(lists[0].size() == static_cast<std::size_t>(getSize()), "lanecast: ", call, ": ", argument, ": ",
                    lists[0].size(), " tensors for ", getSize(), " ranks");
}

void Backend::check_even(const char* call, const char* argument, const SideBySide& shares, std::size_t count) const {
  TORCH_CHECK_VALUE(shares.even() && shares.counts()[0] == count, "lanecast: ", call, ": ", argument,
                    " of other sizes than the ", count, " elements of this rank's own tensor");
}

void Backend::startCoalescing() {
  TORCH_CHECK(!coalesced_, "lanecast: startCoalescing: already coalescing");
  coalesced_.emplace();
}

WorkPtr Backend::endCoalescing() {
  TORCH_CHECK(coalesced_, "lanecast: endCoalescing: there was no startCoalescing");
  Coalesced calls = *std::exchange(coalesced_, std::nullopt);
  if (calls.refusal) std::rethrow_exception(calls.refusal);
  launch_messages(calls.messages);
  return join(getRank(), calls.works);
}

WorkPtr Backend::keep_if_coalescing(WorkPtr work) {
  if (coalesced_) coalesced_->works.push_back(work);
  return work;
}

}  // namespace lanecast_torch
