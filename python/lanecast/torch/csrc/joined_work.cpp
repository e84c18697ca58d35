// SPDX-License-Identifier: Apache-2.0
#include "joined_work.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "work.h"

namespace lanecast_torch {
namespace {

using Members = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// Those on which the members give their tensors; on the CPU none.
std::vector<c10::Device> devices_of(const Members& members) {
  std::vector<c10::Device> devices;
  for (const auto& member : members) {
    const auto& its = member->getFuture()->devices();
    devices.insert(devices.end(), its.begin(), its.end());
  }
  return devices;
}

/// Hands on what the members have given. On streams that no one else is held up by, behind the members' own.
void complete(const Members& members, c10::ivalue::Future& joined) {
  std::vector<c10::Stream> streams;
  for (c10::Device device : joined.devices())
    streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  const c10::MultiStreamGuard guard(streams);
  Tensors outputs;
  for (const auto& member : members) {
    member->getFuture()->wait();  // it is completed: this orders the streams
    for (const at::Tensor& output : member->result()) outputs.push_back(output);
  }
  joined.markCompleted(c10::IValue(outputs));
}

const Work& timed(const c10::intrusive_ptr<c10d::Work>& member) {
  const auto* const work = dynamic_cast<const Work*>(member.get());
  TORCH_CHECK(work, "lanecast: getDuration: this batch has a call that went to gloo; time it alone");
  return *work;
}

class JoinedWork final : public c10d::Work {
 public:
  JoinedWork(int rank, Members members)
      : c10d::Work(rank, c10d::OpType::COALESCED),
        members_(std::move(members)),
        future_(future_of_tensors(devices_of(members_))) {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& member : members_) futures.push_back(member->getFuture());
    c10::collectAll(futures)->addCallback([members = members_, joined = future_](c10::ivalue::Future& all) {
      if (all.hasError()) return joined->setError(all.exception_ptr());
      complete(members, *joined);
    });
  }

  bool isCompleted() override {
    for (const auto& member : members_)
      if (!member->isCompleted()) return false;
    return true;
  }

  bool isSuccess() const override { return exception() == nullptr; }

  std::exception_ptr exception() const override {
    for (const auto& member : members_)
      if (auto error = member->exception()) return error;
    return nullptr;
  }

  /// The timeout is that of all of them.
  bool wait(std::chrono::milliseconds timeout) override {
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& member : members_) {
      const auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      // Not 0, which is none.
      member->wait(timeout == kNoTimeout ? timeout : std::max(timeout - gone, std::chrono::milliseconds(1)));
    }
    return true;
  }

  void synchronize() override {
    for (const auto& member : members_) member->synchronize();
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  /// That of the member that has ended worst.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> results(c10::FutureType::create(c10::AnyEnumType::get()));
    for (const auto& member : members_) results.push_back(member->getFutureResult());
    auto worst = future_of_result();
    c10::collectAll(results)->addCallback([results, worst](c10::ivalue::Future&) {
      auto found = static_cast<std::int64_t>(c10d::WorkResult::SUCCESS);
      for (const c10::intrusive_ptr<c10::ivalue::Future> result : results)
        found = std::max(found, result->value().toInt());
      worst->markCompleted(found);
    });
    return worst;
  }

  /// From the begin of the first member to the last end of any.
  float getDuration() const override {
    float longest = 0;
    for (const auto& member : members_)
      longest = std::max(longest, timed(members_.at(0)).milliseconds_until(timed(member)));
    return longest;
  }

 private:
  const Members members_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> join(int rank, const std::vector<c10::intrusive_ptr<c10d::Work>>& members) {
  return c10::make_intrusive<JoinedWork>(rank, members);
}

}  // namespace lanecast_torch
