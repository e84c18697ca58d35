// SPDX-License-Identifier: Apache-2.0
// Operations under way, as one dense array of MPI's requests for MPI_Testsome, with what belongs to each beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/mpi/shim/big_type.h"
#include "transport/mpi/shim/entrance.h"
#include "transport/mpi/shim/operation.h"
#include "transport/mpi/shim/rooted.h"
#include "transport/mpi/shim/windows.h"

namespace lanecast::mpi {

template <class Abi>
class Requests;

/// All that a library has handed out: when MPI ends, what still listens has to be called back first.
template <class Abi>
struct Listeners {
  std::mutex mutex;
  std::vector<Requests<Abi>*> all;
};

template <class Abi>
class Requests final : public MpiRequests {
 public:
  using Request = typename Abi::Request;
  using Status = typename Abi::Status;

  struct Around {
    const MpiApi& api;
    const Binding<Abi>& mpi;
    Entrance& entrance;
    Parked& parked;
    Listeners<Abi>& listeners;
  };
  explicit Requests(const Around& around)
      : api_(around.api),
        mpi_(around.mpi),
        entrance_(around.entrance),
        parked_(around.parked),
        listeners_(around.listeners) {
    const std::lock_guard lock(listeners_.mutex);
    listeners_.all.push_back(this);
  }
  ~Requests() override {
    {
      const std::lock_guard lock(listeners_.mutex);
      std::erase(listeners_.all, this);
    }
    abandon();
  }

  void send(const MpiMessage& m, void* owner) override {
    const auto visit = entrance_.enter();
    Request request;
    const int code = post_bytes(mpi_, m.bytes, [&](const auto& calls, auto count, auto type) {
      return calls.Isend(m.data, count, type, m.peer, m.tag, mpi_.unwrap(m.comm), &request);
    });
    if (code != 0) mpi_.fail(code, "sending to rank " + std::to_string(m.peer) + ", tag " + std::to_string(m.tag));
    add(request, {owner, false, nullptr});
  }

  void receive(const MpiMessage& m, void* owner) override {
    const auto visit = entrance_.enter();
    Request request;
    const int code = post_bytes(mpi_, m.bytes, [&](const auto& calls, auto count, auto type) {
      return calls.Irecv(m.data, count, type, m.peer, m.tag, mpi_.unwrap(m.comm), &request);
    });
    if (code != 0) mpi_.fail(code, "receiving from rank " + std::to_string(m.peer) + ", tag " + std::to_string(m.tag));
    add(request, {owner, true, nullptr});
  }

  void post(const MpiCollective& wanted, void* owner) override {
    const auto visit = entrance_.enter();
    auto operation = std::make_shared<PendingCollective>();
    operation->owner = owner;
    MpiCollective call = wanted;
    const int rank = mpi_.rank(mpi_.unwrap(call.comm));
    if (goes_by_messages(mpi_, call)) return post_messages(call, operation);
    if (needs_scratch(mpi_, call)) operation->redirect(call, call.counts[rank] * size_of(call.dtype));
    const auto start_one = [&](const auto& calls, const MpiCollective& part) {
      Request request;
      operation->arguments.push_back(start_any(mpi_, calls, part, &request));
      add(request, {owner, false, operation});
      ++operation->requests_left;
    };
    // Members with counts of their own would not agree on which is small.
    if (fits_int(total_count(call)) && !(call.own_counts && mpi_.functions.has_large()))
      start_one(mpi_.functions.small, call);
    else if (mpi_.takes_large(call))
      start_one(mpi_.functions.large, call);
    else
      for_each_window(call, rank, [&](const MpiCollective& window) { start_one(mpi_.functions.small, window); });
  }

  void test(std::vector<MpiCompletion>& done) override {
    const auto visit = entrance_.enter();
    complete(mpi_.functions.calls.Testsome, done);
  }
  void wait(std::vector<MpiCompletion>& done) override {
    const auto visit = entrance_.enter();
    complete(mpi_.functions.calls.Waitsome, done);
  }

  bool empty() const override { return requests_.empty(); }
  void abandon() override;

 private:
  struct Requested {
    void* owner;
    bool receive;
    std::shared_ptr<PendingCollective> collective;  // null for a message
  };

  void post_messages(const MpiCollective& call, const std::shared_ptr<PendingCollective>& operation) {
    const auto comm = mpi_.unwrap(call.comm);
    const int rank = mpi_.rank(comm);
    const auto post_one = [&](const char* way, std::size_t bytes, auto post) {
      Request request;
      const int code = post_bytes(
          mpi_, bytes, [&](const auto& calls, auto count, auto type) { return post(calls, count, type, &request); });
      if (code != 0) mpi_.fail(code, std::string(way) + " as part of a collective");
      add(request, {operation->owner, false, operation});
      ++operation->requests_left;
    };
    const auto send = [&](int peer, const void* data, std::size_t bytes) {
      post_one("sending", bytes, [&](const auto& calls, auto count, auto type, Request* request) {
        return calls.Isend(data, count, type, peer, 0, comm, request);
      });
    };
    const auto receive = [&](int peer, void* data, std::size_t bytes) {
      post_one("receiving", bytes, [&](const auto& calls, auto count, auto type, Request* request) {
        return calls.Irecv(data, count, type, peer, 0, comm, request);
      });
    };
    for_each_message(call, rank, mpi_.size(comm), send, receive);
    if (operation->requests_left > 0) return;
    receive(rank, nullptr, 0);  // so that even nothing has an end
    send(rank, nullptr, 0);
  }

  void complete(int (*some)(int, Request*, int*, int*, Status*), std::vector<MpiCompletion>& done);
  void finish(const Requested& entry, const Status& status, std::vector<MpiCompletion>& done) const;

  void add(Request request, Requested entry) {
    requests_.push_back(request);
    entries_.push_back(std::move(entry));
  }

  const MpiApi& api_;
  const Binding<Abi>& mpi_;
  Entrance& entrance_;
  Parked& parked_;
  Listeners<Abi>& listeners_;
  std::vector<Request> requests_;
  std::vector<Requested> entries_;  // entries_[i] describes requests_[i]
  std::vector<int> finished_;
  std::vector<Status> statuses_;
};

template <class Abi>
void Requests<Abi>::complete(int (*some)(int, Request*, int*, int*, Status*), std::vector<MpiCompletion>& done) {
  if (requests_.empty()) return;
  if (statuses_.size() < requests_.size()) {
    finished_.resize(requests_.size());
    statuses_.resize(requests_.size());
  }
  int count = 0;
  const int code =
      some(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(), statuses_.data());
  bool explained = code == 0;
  for (int i = 0; i < count; ++i) {
    explained |= statuses_[i].MPI_ERROR != 0;
    finish(entries_[finished_[i]], statuses_[i], done);
    statuses_[i] = {};  // MPI writes the error only when something failed, and then perhaps nothing else
  }
  // From the back, so that the element moved into a gap is never one that has finished too.
  std::sort(finished_.begin(), finished_.begin() + std::max(count, 0), std::greater<>());
  for (int i = 0; i < count; ++i) {
    requests_[finished_[i]] = requests_.back();
    requests_.pop_back();
    entries_[finished_[i]] = std::move(entries_.back());
    entries_.pop_back();
  }
  if (!explained) mpi_.fail(code, "completing operations");
}

template <class Abi>
void Requests<Abi>::finish(const Requested& entry, const Status& status, std::vector<MpiCompletion>& done) const {
  const int code = status.MPI_ERROR;
  if (entry.collective == nullptr) {
    MpiCompletion completion;
    completion.owner = entry.owner;
    completion.receive = entry.receive;
    if (code != 0) completion.error = mpi_.describe(code);
    completion.truncated = code != 0 && mpi_.truncation(code);
    if (entry.receive && (code == 0 || (completion.truncated && Abi::kTellsTruncatedLength)))
      completion.bytes = received_bytes(mpi_, status);
    done.push_back(std::move(completion));
    return;
  }
  PendingCollective& operation = *entry.collective;
  if (code != 0) operation.error = mpi_.describe(code);
  if (--operation.requests_left > 0) return;
  operation.deliver();
  done.push_back({.owner = operation.owner, .error = operation.error});
}

template <class Abi>
void Requests<Abi>::abandon() {
  if (!api_.alive()) return;
  const auto visit = entrance_.enter_if_open();
  if (!visit) return;
  constexpr int kRounds = 16;  // a cancelled receive finishes at the next test in every library at hand
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (entries_[i].receive) mpi_.functions.calls.Cancel(&requests_[i]);
  std::vector<MpiCompletion> ignored;
  try {
    for (int round = 0; round < kRounds && !requests_.empty(); ++round)
      complete(mpi_.functions.calls.Testsome, ignored);
  } catch (const Error&) {
    // The caller is giving up because something is broken; that it is broken here too changes nothing.
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (entries_[i].collective == nullptr)
      mpi_.functions.calls.Request_free(&requests_[i]);
    else
      parked_.keep(std::move(entries_[i].collective));  // MPI forbids freeing the request of a collective
  }
  requests_.clear();
  entries_.clear();
}

}  // namespace lanecast::mpi
