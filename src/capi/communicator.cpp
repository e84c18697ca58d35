// SPDX-License-Identifier: Apache-2.0
// Making, splitting and freeing communicators.
#include "transport/mpi/communicator.h"

#include <cstdlib>
#include <string>

#include "capi/config.h"
#include "capi/handles.h"
#include "profiles/finding.h"
#include "runtime/request/coming_together.h"

namespace lanecast::capi {
namespace {

/// Each communicator made here has a helper of its own, which its splits share: there is no global one to find. Its
/// thread starts with the first started call.
lanecastComm_t make(Surroundings around, const lanecastConfig_t* config, const helpers::HelpersWanted& wanted) {
  auto comm = std::make_unique<lanecastComm>();
  CommunicatorOptions options = options_from(config, around.bootstrap.size);
  comm->core =
      std::make_unique<Communicator>(std::move(around), std::move(options), std::make_shared<ProgressThread>());
  const Interrupt& interrupt = comm->core->options().interrupt;
  std::vector<std::string> left_aside =
      adopt_profile(*comm->core, profile_of(config), /*by_variable=*/false, interrupt);
  if (comm->core->rank() == 0)
    left_aside.insert(left_aside.begin(), comm->core->options().left_aside.begin(),
                      comm->core->options().left_aside.end());
  if (wanted.processes > 1) {
    comm->crew = helpers::start_crew(*comm->core, wanted);
    if (!comm->crew->obstacle().empty() && comm->core->rank() == 0) left_aside.push_back(comm->crew->obstacle());
  }
  tell_left_aside(config, left_aside);
  return comm.release();
}

template <class Body>
lanecastResult_t init(lanecastComm_t* comm, const lanecastConfig_t* config, const Body& around) {
  return guarded(error_of(config), [&] {
    if (!comm) throw UsageError("comm: null pointer");
    *comm = nullptr;
    helpers::HelpersWanted wanted = helpers_in(config);
    Surroundings found = around(wanted);
    *comm = make(std::move(found), config, wanted);
  });
}

Bootstrap bootstrap_from(int rank, int size, lanecastAllGatherFn all_gather, void* ctx) {
  if (!all_gather) throw UsageError("all_gather: null pointer");
  return {rank, size, [=](const void* in, void* out, std::size_t bytes) {
            if (const int code = all_gather(in, out, bytes, ctx))
              throw TransportError("rank " + std::to_string(rank) + ": the all-gather callback returned " +
                                   std::to_string(code));
          }};
}

/// Ends an MPI that we have started when the process ends; until then later communicators use it too.
void end_with_process(std::shared_ptr<MpiApi> mpi) {
  const auto end = [](int, void* held) {
    const std::unique_ptr<std::shared_ptr<MpiApi>> owned(static_cast<std::shared_ptr<MpiApi>*>(held));
    guarded(static_cast<lanecastError_t*>(nullptr), [&] { (*owned)->finalize(MpiLatecomers::fail); });
  };
  // Unlike std::atexit it hands an argument on, so no global is needed.
  auto* const held = new std::shared_ptr<MpiApi>(std::move(mpi));
  if (on_exit(end, held) == 0) return;
  delete held;
  throw std::bad_alloc();
}

/// The MPI library of this process, started if it was not. mpi_comm: what a communicator is to be made of.
std::shared_ptr<MpiApi> running_mpi(const void* mpi_comm) {
  std::shared_ptr<MpiApi> mpi = load_mpi({});
  mpi->check_parent(mpi_comm);
  if (!mpi->initialized()) {
    mpi->init_thread(MpiThreads::multiple);
    end_with_process(mpi);
  }
  return mpi;
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastCommInitAllGather(lanecastComm_t* comm, int rank, int nranks, lanecastAllGatherFn all_gather,
                                           void* ctx, const lanecastConfig_t* config) {
  return init(comm, config, [&](const helpers::HelpersWanted&) {
    Surroundings around = among_processes(bootstrap_from(rank, nranks, all_gather, ctx));
    if (over_mpi(config))
      around.mpi = MpiCommunicator::among(running_mpi(nullptr), around.bootstrap,
                                          {timeout_to_begin_s(options_from(config, nranks)), interrupt_of(config)});
    return around;
  });
}

lanecastResult_t lanecastCommInitMPI(lanecastComm_t* comm, const void* mpi_comm, const lanecastConfig_t* config) {
  return init(comm, config, [&](helpers::HelpersWanted& wanted) {
    std::shared_ptr<MpiApi> mpi = running_mpi(mpi_comm);
    const double timeout_s = timeout_to_begin_s(options_from(config, 0));
    const MpiComm parent = mpi->parent_at(mpi_comm);
    if (wanted.by_variable && mpi->size(parent) < mpi->size(mpi->world())) wanted.processes = 1;
    return among_mpi(MpiCommunicator::duplicate(mpi, parent, {timeout_s, interrupt_of(config)}));
  });
}

lanecastResult_t capi::split(lanecastComm_t comm, int color, int key, int max_ctas, lanecastComm_t* newcomm) {
  return guarded(comm, [&](Communicator& parent) {
    if (!newcomm) throw UsageError("rank " + std::to_string(parent.rank()) + ": newcomm: null pointer");
    *newcomm = nullptr;
    auto made = std::make_unique<lanecastComm>();
    std::vector<helpers::Member> members;
    if (comm->crew) members = comm->crew->split(color, key);
    made->core = parent.split(color, key, parent.options().interrupt, max_ctas);
    if (!made->core) return;
    if (comm->crew) made->crew = std::make_unique<helpers::Crew>(*made->core, std::move(members));
    *newcomm = made.release();
  });
}

lanecastResult_t lanecastCommSplit(lanecastComm_t comm, int color, int key, lanecastComm_t* newcomm) {
  return split(comm, color, key, 0, newcomm);
}

lanecastResult_t lanecastCommDestroy(lanecastComm_t comm) {
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] {
    const std::unique_ptr<lanecastComm> owned(comm);
    forget_registrations(comm);
    forget_messages(comm);
  });
}

lanecastResult_t lanecastCommSetTimeout(lanecastComm_t comm, double timeout_s) {
  return guarded(comm, [&](Communicator& core) { core.set_timeout(timeout_s); });
}

lanecastResult_t lanecastCommAbort(lanecastComm_t comm, const char* reason) {
  return guarded(comm, [&](Communicator& core) {
    if (!reason) throw UsageError("rank " + std::to_string(core.rank()) + ": reason: null pointer");
    core.abort(reason);
  });
}

lanecastResult_t lanecastCommWriteTrace(lanecastComm_t comm, const char* directory) {
  return guarded(comm, [&](const Communicator& core) {
    if (!directory) throw UsageError("rank " + std::to_string(core.rank()) + ": directory: null pointer");
    core.write_trace(directory);
  });
}

lanecastResult_t lanecastCommCount(lanecastComm_t comm, int* count) {
  return guarded(comm, [&](const Communicator& core) {
    if (!count) throw UsageError("rank " + std::to_string(core.rank()) + ": count: null pointer");
    *count = core.size();
  });
}

lanecastResult_t lanecastCommUserRank(lanecastComm_t comm, int* rank) {
  return guarded(comm, [&](const Communicator& core) {
    if (!rank) throw UsageError("rank " + std::to_string(core.rank()) + ": rank: null pointer");
    *rank = core.rank();
  });
}

const char* lanecastGetLastError(lanecastComm_t comm) {
  return comm ? comm->error->text : "no communicator: the text of a failed init is in lanecastConfig_t::error";
}
