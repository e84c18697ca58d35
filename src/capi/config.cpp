// SPDX-License-Identifier: Apache-2.0
#include "capi/config.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace lanecast::capi {
namespace {

/// The struct of the first version of the header, which ended with `error`.
constexpr std::size_t kFirstSize = offsetof(lanecastConfig_t, reproducible);

/// A program built against a later header may run with this library as long as it does not use what is new there.
bool is_understood(const lanecastConfig_t& config) {
  if (config.size < kFirstSize) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&config);
  return config.size <= sizeof config ||
         std::all_of(bytes + sizeof config, bytes + config.size, [](unsigned char byte) { return byte == 0; });
}

/// One built against an earlier header has the defaults of what came later.
lanecastConfig_t completed(const lanecastConfig_t& config) {
  if (!is_understood(config))
    throw UsageError("config: its size is " + std::to_string(config.size) + ", this library's " +
                     std::to_string(sizeof config) +
                     "; start from LANECAST_CONFIG_INITIALIZER and set only what the library's version knows");
  lanecastConfig_t whole = LANECAST_CONFIG_INITIALIZER;
  std::memcpy(&whole, &config, std::min(config.size, sizeof whole));
  return whole;
}

constexpr const char *kProcesses = "LANECAST_PROCESSES_PER_GPU", *kSharedCores = "LANECAST_ALLOW_SHARED_CORES";

/// 0 for what is no number.
int number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

bool switched_on(const char* variable) {
  const char* const text = std::getenv(variable);
  return text && (std::string_view(text) == "1" || std::string_view(text) == "true");
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

bool switched(const char* name, int value) {
  if (value != 0 && value != 1)
    throw UsageError(std::string(name) + ": " + std::to_string(value) + " is neither 0 nor 1");
  return value == 1;
}

Interrupt interrupt_in(const lanecastConfig_t& config) {
  if (!config.interrupt) return {};
  return [ask = config.interrupt, ctx = config.interrupt_ctx] {
    lanecastError_t why{};
    if (ask(&why, ctx) == 0) return;
    throw AbortedError(why.text[0] ? why.text : "the program's interrupt function has ended the wait");
  };
}

std::optional<PartOfJob> part_in(const lanecastConfig_t& config, int nranks) {
  if (config.job_size == 0) return {};
  if (config.job_size < 0) throw UsageError("job_size: " + std::to_string(config.job_size) + " is negative");
  if (!config.job_ranks) throw UsageError("job_ranks: null pointer, with a job_size");
  return PartOfJob{
      config.job_size, {config.job_ranks, config.job_ranks + nranks}, switched("job_options", config.job_options)};
}

std::vector<std::string> folders_in(const char* text) {
  std::vector<std::string> folders;
  std::istringstream all(text_or_empty(text));
  for (std::string folder; std::getline(all, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

}  // namespace

CommunicatorOptions options_from(const lanecastConfig_t* config, int nranks) {
  CommunicatorOptions options;
  if (!config) return options;
  const lanecastConfig_t given = completed(*config);
  options.topology = text_or_empty(given.topology);
  options.transports = text_or_empty(given.transports);
  options.algorithm = text_or_empty(given.algorithm);
  options.chunks = given.chunks;
  if (given.timeout_s != 0) options.timeout_s = given.timeout_s;
  if (switched("reproducible", given.reproducible)) options.reproducible = true;
  options.check_calls = switched("check_calls", given.check_calls);
  options.trace_dir = text_or_empty(given.trace_dir);
  options.trace_steps = switched("trace_steps", given.trace_steps);
  options.allow_shared_gpu = switched("allow_shared_gpu", given.allow_shared_gpu);
  options.max_ctas = given.max_ctas;
  options.gpu_messages = text_or_empty(given.gpu_messages);
  options.kernel_cache = text_or_empty(given.kernel_cache);
  options.gpu_library_folders = folders_in(given.gpu_libraries);
  options.interrupt = interrupt_in(given);
  options.part = part_in(given, nranks);
  return options;
}

std::string profile_of(const lanecastConfig_t* config) {
  return config ? text_or_empty(completed(*config).profile) : std::string();
}

bool over_mpi(const lanecastConfig_t* config) { return config && switched("mpi", completed(*config).mpi); }

helpers::HelpersWanted helpers_in(const lanecastConfig_t* config) {
  const lanecastConfig_t given = config ? completed(*config) : lanecastConfig_t LANECAST_CONFIG_INITIALIZER;
  helpers::HelpersWanted wanted;
  wanted.python = given.python && *given.python ? given.python : "python3";
  wanted.shared_cores = switched("allow_shared_cores", given.allow_shared_cores) || switched_on(kSharedCores);
  const char* const variable = given.job_size == 0 ? std::getenv(kProcesses) : nullptr;
  const bool by_variable = given.processes_per_gpu == 0 && variable && *variable;
  wanted.by_variable = by_variable;
  wanted.processes = by_variable ? number_in(variable) : given.processes_per_gpu == 0 ? 1 : given.processes_per_gpu;
  if (wanted.processes < 1 || wanted.processes > helpers::kMostProcesses)
    throw UsageError((by_variable ? std::string(kProcesses) + "=" + variable
                                  : "processes_per_gpu=" + std::to_string(wanted.processes)) +
                     ": expected 1 to " + std::to_string(helpers::kMostProcesses));
  return wanted;
}

Interrupt interrupt_of(const lanecastConfig_t* config) {
  return config ? interrupt_in(completed(*config)) : Interrupt();
}

lanecastError_t* error_of(const lanecastConfig_t* config) {
  return config && config->size >= kFirstSize ? config->error : nullptr;
}

void tell_left_aside(const lanecastConfig_t* config, const std::vector<std::string>& lines) {
  lanecastError_t* const into = config ? completed(*config).left_aside : nullptr;
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  if (into)
    into->text[text.copy(into->text, sizeof into->text - 1)] = '\0';
  else
    for (const std::string& line : lines) std::fprintf(stderr, "lanecast: left aside: %s\n", line.c_str());
}

}  // namespace lanecast::capi
