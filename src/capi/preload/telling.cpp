// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/telling.h"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace lanecast::preload {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string_view whole(name.data());
  return std::string(whole.substr(0, whole.find('.')));
}

/// As NCCL has it: %h is the host, %p the process.
std::string file_wanted() {
  std::string path;
  const std::string pattern = variable("NCCL_DEBUG_FILE");
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const bool is_name = pattern[at] == '%' && at + 1 < pattern.size();
    if (is_name && pattern[at + 1] == 'h')
      path += host_name(), ++at;
    else if (is_name && pattern[at + 1] == 'p')
      path += std::to_string(getpid()), ++at;
    else
      path += pattern[at];
  }
  return path;
}

void write(std::FILE* into, const std::string& line) {
  // At once: the lines of several ranks share a file.
  const std::string whole = host_name() + ":" + std::to_string(getpid()) + " LANECAST " + line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), into);
  std::fflush(into);
}

}  // namespace

bool wants_info() {
  const std::string level = variable("NCCL_DEBUG");
  for (const char* chatty : {"INFO", "ABORT", "TRACE"})
    if (strcasecmp(level.c_str(), chatty) == 0) return true;
  return false;
}

void tell_info(const std::string& line) {
  if (!wants_info()) return;
  const std::string path = file_wanted();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(path.empty() ? nullptr : std::fopen(path.c_str(), "a"),
                                                             [](std::FILE* f) { return std::fclose(f); });
  write(file ? file.get() : stdout, line);
}

void tell_always(const std::string& line) { write(stderr, line); }

}  // namespace lanecast::preload
