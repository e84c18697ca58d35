// SPDX-License-Identifier: Apache-2.0
// MpiApi over one ABI: the shared implementation of all shims.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/quiet_thread.h"
#include "transport/mpi/api.h"
#include "transport/mpi/inherited.h"
#include "transport/mpi/launcher.h"
#include "transport/mpi/shim/binding.h"
#include "transport/mpi/shim/collective.h"
#include "transport/mpi/shim/entrance.h"
#include "transport/mpi/shim/parent.h"
#include "transport/mpi/shim/requests.h"
#include "transport/mpi/wait_for.h"

namespace lanecast::mpi {

template <class Abi>
class Shim final : public MpiApi {
 public:
  using Comm = typename Abi::Comm;

  Shim(Binding<Abi> mpi, MpiLibrary library) : mpi_(std::move(mpi)), calls_(mpi_.functions.calls) {
    library_ = std::move(library);
    library_.abi = Abi::kName;
  }
  ~Shim() override {
    if (!alive() || !hooked_) return;
    calls_.Comm_delete_attr(mpi_.abi.self(), keyval_);  // frees what is left, by at_end
    calls_.Comm_free_keyval(&keyval_);
  }

  const MpiLibrary& library() const override { return library_; }
  bool initialized() const override { return flag(calls_.Initialized); }
  bool finalized() const override { return entrance_->is_closed() || flag(calls_.Finalized); }
  bool started_here() const override { return started_here_; }
  MpiThreads init_thread(MpiThreads wanted) override;
  void finalize(MpiLatecomers latecomers) override {
    if (started_here_ && alive() && entrance_->close(latecomers)) mpi_.check(calls_.Finalize(), "MPI_Finalize");
  }

  MpiComm world() const override { return mpi_.wrap(mpi_.abi.world()); }
  void check_parent(const void* mpi_comm) const override;
  MpiComm parent_at(const void* mpi_comm) const override {
    check_parent(mpi_comm);
    return mpi_comm ? mpi_.wrap(*static_cast<const Comm*>(mpi_comm)) : world();
  }
  int rank(MpiComm comm) const override { return mpi_.rank(mpi_.unwrap(comm)); }
  int size(MpiComm comm) const override { return mpi_.size(mpi_.unwrap(comm)); }
  int tag_upper_bound() const override;
  std::optional<bool> takes(GpuVendor vendor) const override;

  MpiComm dup(MpiComm comm, double timeout_s, const std::function<void(double waited_s)>& meanwhile) override;
  MpiComm split(MpiComm comm, int color, int key) override {
    const auto visit = entrance_->enter();
    Comm made;
    mpi_.check(calls_.Comm_split(mpi_.unwrap(comm), color, key, &made), "MPI_Comm_split");
    return adopt(made);
  }
  MpiMaking create_group(MpiComm comm, std::span<const int> ranks, int tag) override;
  void free(MpiComm comm) override;
  void keep(MpiComm comm) override {
    const std::lock_guard lock(comms_mutex_);
    std::erase(comms_, mpi_.unwrap(comm));
  }

  bool arrived_from_any(MpiComm comm, int tag) override { return arrived(comm, Abi::kAnySource, tag); }
  bool arrived(MpiComm comm, int peer, int tag) override {
    const auto visit = entrance_->enter();
    int found = 0;
    typename Abi::Status status{};
    mpi_.check(calls_.Iprobe(peer, tag, mpi_.unwrap(comm), &found, &status), "MPI_Iprobe");
    return found != 0;
  }
  void barrier(MpiComm comm) override {
    const auto visit = entrance_->enter();
    mpi_.check(calls_.Barrier(mpi_.unwrap(comm)), "MPI_Barrier");
  }
  void run(const MpiCollective& call) override;
  std::unique_ptr<MpiRequests> requests() override { return std::make_unique<Requests<Abi>>(around_requests()); }

 private:
  static bool flag(int (*query)(int*)) {
    int set = 0;
    return query(&set) == 0 && set != 0;
  }
  typename Requests<Abi>::Around around_requests() { return {*this, mpi_, *entrance_, parked_, listeners_}; }
  /// By a thread that is inside.
  MpiComm adopt(Comm comm);
  void hook();
  /// A note to a rank that had no need to look for it is still there when a communicator goes.
  void take_strays(Comm comm);
  /// MPI's callback when an attribute of MPI_COMM_SELF goes: the first thing MPI_Finalize does.
  static int at_end(Comm self, int keyval, void* value, void* shim) noexcept;
  static int copy_nothing(Comm, int, void*, void*, void*, int* copied) noexcept {
    *copied = 0;
    return 0;
  }

  Binding<Abi> mpi_;
  const Calls<Abi>& calls_;
  MpiLibrary library_;
  bool started_here_ = false;
  bool hooked_ = false;
  int keyval_ = 0;
  std::mutex comms_mutex_;  // communicators may come and go in another thread than the one that progresses
  std::vector<Comm> comms_;
  Parked parked_;
  Listeners<Abi> listeners_;
  std::shared_ptr<Entrance> entrance_ = std::make_shared<Entrance>();  // threads of create_group() may outlive this
};

template <class Abi>
MpiThreads Shim<Abi>::init_thread(MpiThreads wanted) {
  if (finalized()) throw TransportError("MPI has ended in this process, and cannot be started twice");
  int level = 0;
  if (initialized()) {
    mpi_.check(calls_.Query_thread(&level), "MPI_Query_thread");
  } else {
    if (const std::string why = inherited_rank(family_of(library_.version)); !why.empty()) throw UsageError(why);
    mpi_.check(calls_.Init_thread(nullptr, nullptr, Abi::kThreads[static_cast<int>(wanted)], &level),
               "MPI_Init_thread");
    started_here_ = true;
    // MPICH raises what Testsome finds on MPI_COMM_WORLD, not on the request's communicator. Where a user started MPI,
    // the handler there is the user's choice.
    for (const Comm comm : {mpi_.abi.world(), mpi_.abi.self()})
      mpi_.check(calls_.Comm_set_errhandler(comm, mpi_.abi.errors_return()), "MPI_Comm_set_errhandler");
    const Launcher launcher = detect_launcher();
    if (launcher.ranks > 1 && size(world()) == 1)
      throw TransportError("this process was started as one of " + std::to_string(launcher.ranks) + " by " +
                           launcher.name() + ", but " + library_.version + " (" + library_.path +
                           ") runs it alone: " + launcher.remedy());
  }
  const auto found = std::find(Abi::kThreads.begin(), Abi::kThreads.end(), level);
  return static_cast<MpiThreads>(found - Abi::kThreads.begin());
}

template <class Abi>
void Shim<Abi>::check_parent(const void* mpi_comm) const {
  if (finalized())
    throw UsageError("MPI has ended in this process, and cannot be started twice: make communicators before");
  if (initialized() && !alive())
    throw UsageError(
        "this process was forked from a rank that had started MPI, which is its parent's: make the communicator there, "
        "or bring processes that do not use MPI together by an all-gather of their own (from_all_gather)");
  if (mpi_comm) mpi::check_parent(mpi_, mpi_comm, initialized());
}

template <class Abi>
int Shim<Abi>::tag_upper_bound() const {
  void* value = nullptr;
  int found = 0;
  mpi_.check(calls_.Comm_get_attr(mpi_.abi.world(), Abi::kTagUpperBound, static_cast<void*>(&value), &found),
             "MPI_Comm_get_attr");
  constexpr int kLeast = 32767;  // promised by the standard
  return found != 0 ? *static_cast<const int*>(value) : kLeast;
}

template <class Abi>
std::optional<bool> Shim<Abi>::takes(GpuVendor vendor) const {
  const Functions<Abi>& functions = mpi_.functions;
  const auto query = vendor == GpuVendor::nvidia ? functions.Query_cuda_support : functions.Query_rocm_support;
  if (query && query() == 1) return true;
  constexpr int kCuda = 0, kHip = 2;  // MPIX_GPU_SUPPORT_…
  int is_supported = 0;
  if (functions.GPU_query_support &&
      functions.GPU_query_support(vendor == GpuVendor::nvidia ? kCuda : kHip, &is_supported) == 0 && is_supported)
    return true;
  return {};
}

template <class Abi>
MpiComm Shim<Abi>::dup(MpiComm comm, double timeout_s, const std::function<void(double waited_s)>& meanwhile) {
  auto made = std::make_shared<Comm>();
  typename Abi::Request request;
  {
    const auto visit = entrance_->enter();
    mpi_.check(calls_.Comm_idup(mpi_.unwrap(comm), made.get(), &request), "MPI_Comm_idup");
  }
  const auto test = [&] {
    const auto visit = entrance_->enter();
    int count = 0, index = 0;
    typename Abi::Status status{};
    mpi_.check(calls_.Testsome(1, &request, &count, &index, &status), "MPI_Comm_idup");
    return count != 0;
  };
  try {
    wait_until(test, timeout_s, meanwhile);
  } catch (...) {
    parked_.keep(made);  // MPI may write there yet
    throw;
  }
  const auto visit = entrance_->enter();
  return adopt(*made);
}

template <class Abi>
MpiMaking Shim<Abi>::create_group(MpiComm comm, std::span<const int> ranks, int tag) {
  auto visit = entrance_->enter();
  typename Abi::Group all, members;
  mpi_.check(calls_.Comm_group(mpi_.unwrap(comm), &all), "MPI_Comm_group");
  const int included = calls_.Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
  calls_.Group_free(&all);
  mpi_.check(included, "MPI_Group_incl");
  struct Making {
    Comm comm;
    int code = 0;
    std::atomic<bool> done = false;
  };
  auto making = std::make_shared<Making>();
  // It may outlive this object: a member may never come.
  auto make = [making, members, tag, parent = mpi_.unwrap(comm), create = calls_.Comm_create_group,
               free = calls_.Group_free, entrance = entrance_, inside = std::optional(std::move(visit))]() mutable {
    making->code = create(parent, members, tag, &making->comm);
    free(&members);
    inside.reset();
    making->done.store(true, std::memory_order_release);  // pairs with what is returned
  };
  if (init_thread(MpiThreads::multiple) == MpiThreads::multiple)
    quiet_thread(std::move(make)).detach();
  else
    make();
  return [this, making]() -> std::optional<MpiComm> {
    if (!making->done.load(std::memory_order_acquire)) return {};
    const auto visit = entrance_->enter();
    mpi_.check(making->code, "MPI_Comm_create_group");
    return adopt(making->comm);
  };
}

template <class Abi>
void Shim<Abi>::take_strays(Comm comm) {
  constexpr std::size_t kMostBytes = 4096;  // surely all here; what is larger may need a sender that has gone
  std::array<std::byte, kMostBytes> stray;
  std::vector<MpiCompletion> done;
  constexpr int kLooks = 16;  // what has arrived may take a library several looks to see
  for (int looks = 0; looks < kLooks;) {
    int found = 0;
    typename Abi::Status status{};
    {
      const auto visit = entrance_->enter();
      if (calls_.Iprobe(Abi::kAnySource, Abi::kAnyTag, comm, &found, &status) != 0) return;
    }
    if (found == 0) {
      ++looks;
      continue;
    }
    const std::size_t bytes = received_bytes(mpi_, status);
    if (bytes > kMostBytes) return;
    Requests<Abi> requests(around_requests());
    requests.receive({mpi_.wrap(comm), status.MPI_SOURCE, status.MPI_TAG, stray.data(), bytes}, nullptr);
    requests.wait(done);
  }
}

template <class Abi>
void Shim<Abi>::free(MpiComm comm) {
  Comm gone = mpi_.unwrap(comm);
  take_strays(gone);
  const auto visit = entrance_->enter();
  {
    const std::lock_guard lock(comms_mutex_);
    std::erase(comms_, gone);
  }
  mpi_.check(calls_.Comm_free(&gone), "MPI_Comm_free");
}

template <class Abi>
void Shim<Abi>::run(const MpiCollective& call) {
  if (!needs_scratch(mpi_, call) && !goes_by_messages(mpi_, call)) {
    const auto visit = entrance_->enter();
    if (fits_int(total_count(call)) && !call.own_counts)
      return void(start_any(mpi_, mpi_.functions.small, call, nullptr));
    if (mpi_.functions.has_large()) return void(start_any(mpi_, mpi_.functions.large, call, nullptr));
  }
  Requests<Abi> requests(around_requests());
  requests.post(call, nullptr);
  std::vector<MpiCompletion> done;
  while (done.empty()) requests.wait(done);
  if (!done[0].error.empty()) throw TransportError("MPI's own collective failed: " + done[0].error);
}

template <class Abi>
MpiComm Shim<Abi>::adopt(Comm comm) {
  mpi_.check(calls_.Comm_set_errhandler(comm, mpi_.abi.errors_return()), "MPI_Comm_set_errhandler");
  const std::lock_guard lock(comms_mutex_);
  if (!hooked_) hook();
  comms_.push_back(comm);
  return mpi_.wrap(comm);
}

template <class Abi>
void Shim<Abi>::hook() {
  mpi_.check(calls_.Comm_create_keyval(&copy_nothing, &at_end, &keyval_, this), "MPI_Comm_create_keyval");
  mpi_.check(calls_.Comm_set_attr(mpi_.abi.self(), keyval_, nullptr), "MPI_Comm_set_attr");
  hooked_ = true;
}

template <class Abi>
int Shim<Abi>::at_end(Comm, int, void*, void* shim) noexcept {
  auto& self = *static_cast<Shim*>(shim);
  self.entrance_->close(MpiLatecomers::fail);  // MPI ends also where a thread stays inside: it is too late to say no
  {
    const std::lock_guard lock(self.listeners_.mutex);
    for (Requests<Abi>* requests : self.listeners_.all) requests->abandon();
  }
  std::vector<Comm> left;
  {
    const std::lock_guard lock(self.comms_mutex_);
    left.swap(self.comms_);
  }
  for (Comm& comm : left) {
    try {
      self.take_strays(comm);
    } catch (const Error&) {
      // MPI ends in any case.
    }
    self.calls_.Comm_free(&comm);
  }
  self.mpi_.operators->free_all(self.calls_.Op_free);
  return 0;
}

}  // namespace lanecast::mpi
