// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "transport/ucx/libraries.h"

namespace lanecast::ucx {
namespace {

/// For the next run: a second UCX in this process would call parts of the first.
std::string another_than(const std::string& in_use) {
  const std::vector<Library> all = libraries(in_use);
  return all.size() > 1 ? all[1].path + " perhaps" : "that of libucx-cu12, say, which pip installs";
}

}  // namespace

const Ucp& Ucp::loaded() {
  static constexpr std::array kNames{kLibraryName};
  // A cluster's own UCX comes first: those of wheels may not know its network.
  static const Ucp ucp(SharedLibrary::open({
      .what = "UCX",
      .variable = "LANECAST_UCX_LIBRARY",
      .names = kNames,
      .folders = {},
      .vendor_folders = wheel_folders(),
      .advice = "It carries messages between hosts where no MPI runs. Start the job with mpirun, mpiexec or srun, load "
                "your site's module, install it (pip install libucx-cu12)",
  }));
  return ucp;
}

bool Ucp::found() {
  try {
    loaded();
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

Ucp::Ucp(SharedLibrary library) : library_(std::move(library)) {
  const auto load = [this](auto& function, const char* name) { function = library_.required(name); };
#define LANECAST_LOAD(name) load(name, #name)
  LANECAST_LOAD(ucp_get_version_string);
  LANECAST_LOAD(ucp_get_version);
  if (!is_at_least(kOldestMajor, kOldestMinor))
    throw UsageError("UCX " + version() + " (" + path() + ") is older than " + std::to_string(kOldestMajor) + "." +
                     std::to_string(kOldestMinor) + ", and would wait for ever where a peer has gone: name a newer " +
                     "one in LANECAST_UCX_LIBRARY, " + another_than(path()));
  LANECAST_LOAD(ucp_config_read);
  LANECAST_LOAD(ucp_config_modify);
  LANECAST_LOAD(ucp_config_print);
  LANECAST_LOAD(ucp_config_release);
  LANECAST_LOAD(ucp_init_version);
  LANECAST_LOAD(ucp_context_query);
  LANECAST_LOAD(ucp_cleanup);
  LANECAST_LOAD(ucp_mem_map);
  LANECAST_LOAD(ucp_mem_unmap);
  LANECAST_LOAD(ucp_rkey_pack);
  LANECAST_LOAD(ucp_rkey_buffer_release);
  LANECAST_LOAD(ucp_worker_create);
  LANECAST_LOAD(ucp_worker_destroy);
  LANECAST_LOAD(ucp_worker_query);
  LANECAST_LOAD(ucp_worker_release_address);
  LANECAST_LOAD(ucp_worker_progress);
  LANECAST_LOAD(ucp_worker_get_efd);
  LANECAST_LOAD(ucp_worker_arm);
  LANECAST_LOAD(ucp_worker_set_am_recv_handler);
  LANECAST_LOAD(ucp_ep_create);
  LANECAST_LOAD(ucp_ep_flush_nbx);
  LANECAST_LOAD(ucp_ep_close_nbx);
  LANECAST_LOAD(ucp_tag_send_nbx);
  LANECAST_LOAD(ucp_tag_recv_nbx);
  LANECAST_LOAD(ucp_tag_probe_nb);
  LANECAST_LOAD(ucp_am_send_nbx);
  LANECAST_LOAD(ucp_request_check_status);
  LANECAST_LOAD(ucp_request_cancel);
  LANECAST_LOAD(ucp_request_free);
  LANECAST_LOAD(ucs_status_string);
#undef LANECAST_LOAD
}

std::string Ucp::version() const { return ucp_get_version_string(); }

bool Ucp::is_at_least(unsigned major, unsigned minor) const {
  unsigned found_major = 0, found_minor = 0, release = 0;
  ucp_get_version(&found_major, &found_minor, &release);
  return std::pair(found_major, found_minor) >= std::pair(major, minor);
}

void Ucp::check(Status status, const char* what) const {
  if (status < 0) throw TransportError(std::string("UCX: ") + what + " failed: " + words(status));
}

}  // namespace lanecast::ucx
