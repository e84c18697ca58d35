// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/communicator.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "transport/mpi/attendance.h"
#include "transport/mpi/wait_for.h"

namespace lanecast {
namespace {

using Look = std::function<void(double waited_s)>;

/// `look`, and now and then the interrupt, which may want a lock of the program's.
Look with_interrupt(const MpiPatience& patience, Look look) {
  constexpr double kEvery_s = 0.02;
  if (!patience.interrupt) return look;
  return [interrupt = patience.interrupt, look = std::move(look), next_s = 0.0](double waited_s) mutable {
    if (waited_s >= next_s) {
      next_s = waited_s + kEvery_s;
      interrupt();
    }
    look(waited_s);
  };
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiApi> api, MpiComm handle, MpiPatience patience)
    : api_(std::move(api)),
      handle_(handle),
      rank_(api_->rank(handle)),
      size_(api_->size(handle)),
      patience_(std::move(patience)) {}

MpiCommunicator::~MpiCommunicator() {
  if (retired_ || !api_->alive()) return;
  try {
    api_->free(handle_);
  } catch (const TransportError&) {
    // After a failed call MPI may refuse this one too; a destructor can only let the communicator go.
  }
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::duplicate(std::shared_ptr<MpiApi> api, MpiComm parent,
                                                            const MpiPatience& patience) {
  const double timeout_s = patience.timeout_s;
  const std::string wanted = "to make a communicator: have all ranks called init, from_mpi or lanecastCommInitMPI?";
  const auto made = [&](Look meanwhile) {
    const MpiComm handle = api->dup(parent, timeout_s, with_interrupt(patience, std::move(meanwhile)));
    return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(api, handle, patience));
  };
  if (!api->started_here() || parent != api->world()) {
    // Another's communicator: a message of ours there might meet a receive that takes any.
    return made([&](double waited_s) {
      if (waited_s >= timeout_s)
        throw TimeoutError("rank " + std::to_string(api->rank(parent)) + " of " + std::to_string(api->size(parent)) +
                           " waited " + seconds_text(timeout_s) + " for the others " + wanted);
    });
  }
  Attendance attendance(*api, {parent, api->tag_upper_bound(), 0, timeout_s, wanted});
  auto comm = made([&](double waited_s) { attendance.look(waited_s); });
  const std::uint8_t mine = attendance.told() ? 1 : 0;
  std::vector<std::uint8_t> all(comm->size());
  mpi_bootstrap(comm).all_gather(&mine, all.data(), 1);
  attendance.take(all);
  return comm;
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::among(std::shared_ptr<MpiApi> api, const Bootstrap& bootstrap,
                                                        const MpiPatience& patience) {
  const int mine = api->rank(api->world());
  std::vector<int> ranks(static_cast<std::size_t>(bootstrap.size));
  bootstrap.all_gather(&mine, ranks.data(), sizeof mine);
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw UsageError("several ranks are rank " + std::to_string(*twice) + " of their MPI_COMM_WORLD of " +
                     std::to_string(api->size(api->world())) + ": they are not of one MPI job");
  const MpiMaking making = api->create_group(api->world(), ranks, api->tag_upper_bound());
  MpiComm handle{};
  const auto made = [&] {
    const std::optional<MpiComm> comm = making();
    if (comm) handle = *comm;
    return comm.has_value();
  };
  wait_until(made, patience.timeout_s, with_interrupt(patience, [&](double waited_s) {
               if (waited_s >= patience.timeout_s)
                 throw TimeoutError("rank " + std::to_string(bootstrap.rank) + " of " + std::to_string(bootstrap.size) +
                                    " waited " + seconds_text(patience.timeout_s) +
                                    " for the others to make an MPI communicator: are all ranks alive?");
             }));
  return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(std::move(api), handle, patience));
}

MpiCommunicator::Making MpiCommunicator::group(std::span<const int> ranks) const {
  return [api = api_, patience = patience_,
          making = api_->create_group(handle_, ranks, message_tags())]() -> std::shared_ptr<MpiCommunicator> {
    const std::optional<MpiComm> handle = making();
    if (!handle) return {};
    return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(api, *handle, patience));
  };
}

Bootstrap mpi_bootstrap(std::shared_ptr<const MpiCommunicator> comm) {
  Bootstrap bootstrap{.rank = comm->rank(), .size = comm->size(), .all_gather = {}};
  bootstrap.all_gather = [comm = std::move(comm), round = std::uint64_t{0}](const void* in, void* out,
                                                                            std::size_t bytes) mutable {
    const std::vector<std::size_t> counts(comm->size(), bytes);
    const auto* mine = static_cast<const std::byte*>(in);
    auto memory = std::make_unique<std::vector<std::byte>>(mine, mine + bytes);
    memory->resize(bytes * (comm->size() + 1));
    const auto requests = comm->api().requests();
    requests->post({.comm = comm->handle(),
                    .kind = Kind::all_gather,
                    .dtype = DType::uint8,
                    .in = memory->data(),
                    .out = memory->data() + bytes,
                    .counts = counts},
                   nullptr);
    std::vector<MpiCompletion> done;
    const auto finished = [&] {
      requests->test(done);
      return !done.empty();
    };
    Attendance attendance(comm->api(), {comm->handle(), comm->attendance_tag(), ++round, comm->patience().timeout_s,
                                        "to go on making the communicator: are all ranks alive?"});
    try {
      wait_until(finished, comm->patience().timeout_s,
                 with_interrupt(comm->patience(), [&](double waited_s) { attendance.look(waited_s); }));
    } catch (...) {
      static_cast<void>(memory.release());  // MPI may write there until the process ends
      throw;
    }
    if (!done[0].error.empty()) throw TransportError("MPI's own collective failed: " + done[0].error);
    std::copy(memory->begin() + static_cast<std::ptrdiff_t>(bytes), memory->end(), static_cast<std::byte*>(out));
  };
  return bootstrap;
}

}  // namespace lanecast
