// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/inherited.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace lanecast::mpi {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPmixPlace{"PMIX_NAMESPACE", "PMIX_RANK"};
constexpr std::array kPmiPlace{"PMI_FD",           "PMI_PORT",    "PMI_ID",        "PMI_RANK",
                               "PMI_CONTROL_PORT", "PALS_APID",   "SLURM_JOB_ID",  "SLURM_STEP_ID",
                               "SLURM_PROCID",     "FLUX_JOB_ID", "FLUX_TASK_RANK"};
constexpr std::array kPmixFamilies{"PMIX_", "OMPI_", "SLURM_"};
constexpr std::array kPmiFamilies{"PMI_", "PALS_", "FLUX_", "SLURM_"};

/// How an MPI finds the other ranks, in variables.
struct Manager {
  std::span<const char* const> place;     // the job and the rank: equal in all is the same rank of the same job
  std::size_t services;                   // so many of them, without which there is none
  std::span<const char* const> families;  // what a process that is no rank should not have of it
};
constexpr Manager kPmix{kPmixPlace, 1, kPmixFamilies}, kPmi{kPmiPlace, 5, kPmiFamilies};

std::string_view own(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

/// A file of /proc/PID; nothing where it may not be read.
std::optional<std::string> read(int pid, const char* file) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/" + file);
  if (!stream) return {};
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

class Ancestor {
 public:
  explicit Ancestor(int pid) : pid_(pid), stat_(read(pid, "stat").value_or("")) {
    std::istringstream variables(read(pid, "environ").value_or(""));
    for (std::string each; std::getline(variables, each, '\0');) environment_.push_back(each);
  }

  int id() const { return pid_; }
  std::string name() const {
    const std::size_t from = stat_.find('(') + 1;
    return stat_.substr(from, stat_.rfind(')') - from);
  }
  int parent() const {
    if (stat_.empty()) return 0;
    std::istringstream fields(stat_.substr(stat_.rfind(')') + 1));  // the name may hold blanks and brackets
    char state = 0;
    int pid = 0;
    fields >> state >> pid;
    return pid;
  }
  std::string_view value(std::string_view variable) const {
    for (const std::string_view each : environment_)
      if (each.starts_with(variable) && each.substr(variable.size()).starts_with('='))
        return each.substr(variable.size() + 1);
    return {};
  }
  /// Where one of its descriptors leads.
  std::string descriptor(std::string_view number) const {
    std::error_code unreadable;
    return fs::read_symlink("/proc/" + std::to_string(pid_) + "/fd/" + std::string(number), unreadable);
  }
  /// A shell or a tool between launcher and rank has none, unless it is made to load what is meant for the rank.
  bool has_mpi() const {
    if (!value("LD_PRELOAD").empty()) return false;
    std::istringstream lines(read(pid_, "maps").value_or(""));
    for (std::string line; std::getline(lines, line);) {
      const std::string file = line.substr(line.rfind('/') + 1);
      if (file.starts_with("libmpi") && file.find(".so") != std::string::npos) return true;
    }
    return false;
  }

 private:
  int pid_;
  std::string stat_;
  std::vector<std::string> environment_;
};

bool is_set(const char* variable) { return !own(variable).empty(); }
bool is_here(const Manager& manager) { return std::ranges::any_of(manager.place.first(manager.services), is_set); }

/// A launcher that runs within a rank gives its own ranks other numbers, or another connection of the same number.
bool has_same_place(const Manager& manager, const Ancestor& other) {
  const auto differs = [&](const char* variable) { return own(variable) != other.value(variable); };
  if (std::ranges::any_of(manager.place, differs)) return false;
  const std::string_view connection = &manager == &kPmi ? own("PMI_FD") : "";
  return connection.empty() || Ancestor(getpid()).descriptor(connection) == other.descriptor(connection);
}

enum class Connection : std::uint8_t { good, missing, ended };

/// To the launcher's process manager, which says nothing before it is asked: what can be read is its end.
Connection connection() {
  if (!is_set("PMI_FD") || is_here(kPmix)) return Connection::good;  // an MPI may go by the latter
  int number = -1;
  const std::string_view text = own("PMI_FD");
  std::from_chars(text.data(), text.data() + text.size(), number);
  struct stat file{};
  // Not passed on, or its number means another file by now.
  if (fstat(number, &file) != 0 || !S_ISSOCK(file.st_mode)) return Connection::missing;
  char next = 0;
  return recv(number, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ? Connection::ended : Connection::good;
}

std::string rank_in(const Manager& manager) {
  for (const char* variable : {"PMIX_RANK", "PMI_RANK", "PMI_ID"})
    if (std::ranges::count(manager.place, std::string_view(variable)) > 0 && is_set(variable))
      return std::string(variable) + "=" + std::string(own(variable));
  return "of unknown number";
}

std::string what_to_do(const Manager& manager) {
  std::string families;
  for (const std::string_view family : manager.families)
    for (char** variable = environ; *variable; ++variable)
      if (std::string_view(*variable).starts_with(family)) {
        families += (families.empty() ? "" : ", ") + std::string(family) + "*";
        break;
      }
  return ". Make the communicator in the process that the launcher has started, or one of this process alone: by an "
         "all-gather of its own (lanecast.from_all_gather(0, 1, lambda mine: mine)), or started without the "
         "variables " +
         families + ". A program that only stands between launcher and rank has to exec the rank";
}

}  // namespace

std::string inherited_rank(Family family) {
  const bool by_pmix = family == Family::open_mpi || !is_here(kPmi);
  const Manager& manager = by_pmix ? kPmix : kPmi;
  if (!is_here(manager)) return {};
  const Connection state = by_pmix ? Connection::good : connection();
  const std::string begin = "MPI cannot start in this process: it has ";
  if (state == Connection::missing)
    return begin + "the variables of a launcher's rank (" + rank_in(manager) +
           "), but not its connection to the launcher, descriptor " + std::string(own("PMI_FD")) +
           " by PMI_FD. So it is a child of that rank, or what stands between them has closed the descriptor" +
           what_to_do(manager) + ", or to pass that descriptor on (close_fds=False of Python's subprocess)";
  if (state == Connection::ended)
    return begin + "the variables of a launcher's rank (" + rank_in(manager) +
           "), but the launcher has ended the connection, descriptor " + std::string(own("PMI_FD")) +
           " by PMI_FD: another program has been that rank before, and a launcher serves one for each rank. Start each "
           "program by a launcher of its own, and not both by one script";
  for (int pid = getppid(); pid > 1;) {
    const Ancestor ancestor(pid);
    if (!has_same_place(manager, ancestor)) break;
    if (ancestor.has_mpi())
      return begin + "inherited the variables of a launcher's rank (" + rank_in(manager) + ") from process " +
             std::to_string(ancestor.id()) + " (" + ancestor.name() + "), which has loaded MPI itself" +
             what_to_do(manager);
    pid = ancestor.parent();
  }
  return {};
}

}  // namespace lanecast::mpi
