// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/trace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/trust.h"
#include "base/whole_file.h"

namespace lanecast {
namespace {

std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') json += '\\';
    if (static_cast<unsigned char>(letter) < ' ') {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(letter));
      json += code.data();
    } else {
      json += letter;
    }
  }
  return json + '"';
}

/// {"name": value, …} on a line of its own.
class TraceLine {
 public:
  explicit TraceLine(std::ostream& file) : file_(file) {}
  ~TraceLine() { file_ << "}\n"; }
  TraceLine(const TraceLine&) = delete;
  TraceLine& operator=(const TraceLine&) = delete;

  TraceLine& text(std::string_view name, std::string_view value) { return raw(name, quoted(value)); }
  template <class Number>
  TraceLine& number(std::string_view name, Number value) {
    return raw(name, std::to_string(value));
  }

 private:
  TraceLine& raw(std::string_view name, const std::string& value) {
    file_ << (first_ ? "{" : ", ") << quoted(name) << ": " << value;
    first_ = false;
    return *this;
  }
  std::ostream& file_;
  bool first_ = true;
};

std::string_view text_of(CallState state) {
  return state == CallState::running ? "running" : state == CallState::done ? "done" : "failed";
}

std::string id_text(std::uint64_t id) {
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(id));
  return digits.data();
}

/// Of type message, work (of this rank alone) or wait.
void write_step(std::ostream& file, const TraceOwner& owner, const StepRecord& step) {
  TraceLine line(file);
  line.text("type", !step.kind               ? "wait"
                    : step.transport.empty() ? "work"
                                             : "message")
      .number("sequence", step.sequence);
  if (step.kind)
    line.text("step", name_of(*step.kind))
        .number("index", step.step)
        .number("chunk", step.chunk)
        .number("bytes", step.bytes);
  if (!step.transport.empty()) line.number("peer", step.peer).text("transport", step.transport);
  if (step.peer >= 0) line.number("level", owner.topology.parting_level(owner.rank, step.peer));
  line.number("begin_ns", step.begin_ns).number("end_ns", step.end_ns);
}

void write_lines(std::ostream& file, const TraceOwner& owner, const CallLog& log) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string levels;
  for (int k = 0; k < owner.topology.levels(); ++k) levels += (k ? "," : "") + owner.topology.level(k).name;
  TraceLine(file)
      .text("type", "communicator")
      .text("id", id_text(owner.communicator))
      .number("rank", owner.rank)
      .number("size", owner.topology.size())
      .text("topology", owner.topology.str())
      .text("levels", levels)
      .text("transports", owner.transports)
      .text("host", host.data())
      .number("pid", getpid())
      .number("written_ns", trace_clock_ns())
      .text("waiting", log.waiting())
      .text("failure", log.failure());
  for (const CallRecord& call : log.calls())
    TraceLine(file)
        .text("type", "call")
        .number("sequence", call.sequence)
        .text("collective", name_of(call.kind))
        .text("op", Collective{call.kind}.reduces() ? name_of(call.op) : "")
        .text("dtype", name_of(call.dtype))
        .number("root", call.root)
        .number("bytes", call.bytes)
        .text("algorithm", call.algorithm.data())
        .number("chunks", call.chunks)
        .text("state", text_of(log.state_of(call)))
        .number("begin_ns", call.begin_ns)
        .number("end_ns", call.end_ns);
  for (const StepRecord& step : log.steps()) write_step(file, owner, step);
  for (const LaunchRecord& launch : log.launches())
    TraceLine(file)
        .text("type", "launch")
        .number("call", launch.call)
        .text("what", launch.what)
        .number("bytes", launch.bytes)
        .text("kernel", launch.kernel)
        .number("blocks", launch.blocks)
        .number("at_ns", launch.at_ns);
}

}  // namespace

void write_trace(const std::string& directory, const TraceOwner& owner, const CallLog& log) {
  const std::string path =
      directory + "/" + id_text(owner.communicator) + ".rank" + std::to_string(owner.rank) + ".jsonl";
  const auto refuse = [&](const std::string& why) {
    throw TransportError("the trace " + path + " cannot be written: " + why +
                         "; name a folder that can be written to, by LANECAST_TRACE_DIR or trace_dir if one of them " +
                         "named this one");
  };
  try {
    make_folders(directory);
  } catch (const UsageError& error) {
    refuse(error.what());
  }
  std::ostringstream lines;
  write_lines(lines, owner, log);
  // A failure may write in one thread while a signal's handler writes in another: the last complete file stays.
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  if (const int error = write_whole(path, lines.view(), kMode); error != 0)
    refuse(std::generic_category().message(error));
}

}  // namespace lanecast
