// SPDX-License-Identifier: Apache-2.0
#include "helpers/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace lanecast::helpers {
namespace {

constexpr auto kEndsWithin = std::chrono::milliseconds(5000);  // for a helper to end by itself
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

/// Files and signals of a new process.
struct Preparation {
  explicit Preparation(int socket) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, socket, HelperProcess::kSocket);
    posix_spawn_file_actions_addclosefrom_np(&files, HelperProcess::kSocket + 1);
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);  // a program's threads may hear none
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  ~Preparation() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
};

/// This process's environment.
std::vector<char*> variables(std::span<const std::string_view> without) {
  std::vector<char*> found;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::find(without, text.substr(0, text.find('='))) == without.end()) found.push_back(*entry);
  }
  found.push_back(nullptr);
  return found;
}

}  // namespace

HelperProcess::HelperProcess(const std::vector<std::string>& command, std::span<const std::string_view> without,
                             int socket) {
  const Preparation preparation(socket);
  const std::vector<char*> environment = variables(without);
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error =
      posix_spawnp(&pid_, words[0], &preparation.files, &preparation.attributes, words.data(), environment.data());
  const std::string why = "processes_per_gpu: " + command[0] + " does not start: " + std::strerror(error);
  if (error == ENOENT || error == EACCES || error == ENOEXEC)
    throw UsageError(why + "; name a Python that has lanecast (lanecastConfig_t::python)");
  if (error != 0) throw TransportError(why);
  try {
    process_ = Process(pid_);
  } catch (const TransportError&) {
    // It has ended already, which its channel tells.
  }
}

bool HelperProcess::ends_within(std::chrono::milliseconds span) {
  const auto until = std::chrono::steady_clock::now() + span;
  const std::lock_guard lock(mutex_);
  while (!ended_) {
    int status = 0;
    const int found = waitpid(pid_, &status, WNOHANG);
    if (found == pid_) status_ = status;
    // A program that ignores SIGCHLD, or waits for all children, leaves nothing to wait for.
    ended_ = found == pid_ || (found < 0 && errno == ECHILD && process_.has_ended());
    if (ended_ || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return ended_;
}

HelperProcess::~HelperProcess() {
  if (!own_.here() || ends_within(kEndsWithin)) return;
  kill();
  ends_within(kEndsWithin);
}

void HelperProcess::kill() {
  const std::lock_guard lock(mutex_);
  if (!ended_) ::kill(pid_, SIGKILL);  // else another process may have its id by now
}

std::string HelperProcess::how_it_has_ended() {
  if (!ends_within(kEndsWithin) || !status_) return "";
  if (WIFSIGNALED(*status_)) return ", killed by signal " + std::to_string(WTERMSIG(*status_));
  return " with status " + std::to_string(WEXITSTATUS(*status_));
}

std::string HelperProcess::state() const {
  switch (process_.state()) {
    case 'T':
      return "is stopped";
    case 't':
      return "is stopped by a debugger";
    case 'Z':
      return "has ended";
    case 'D':
      return "waits for a disk";
    default:
      return "sleeps";
  }
}

}  // namespace lanecast::helpers
