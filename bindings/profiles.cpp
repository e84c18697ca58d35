// SPDX-License-Identifier: Apache-2.0
// The files that communicators choose by, where they lie, and what they hold for.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/stat.h>

#include "base/trust.h"
#include "base/user_cache.h"
#include "base/whole_file.h"
#include "bindings.h"
#include "calls.h"
#include "gil.h"
#include "profiles/finding.h"
#include "profiles/profile_file.h"
#include "runtime/communicator/communicator.h"
#include "select/peer_lines.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {

void bind_profiles(nb::module_& m) {
  m.def(
      "user_cache",
      [](const std::string& name) -> std::optional<std::filesystem::path> {
        auto found = user_cache(name);
        if (found.empty()) return {};
        return found;
      },
      "name"_a, "Where this user's caches of that name lie; need not exist. None for a user without a home.");
  m.def(
      "temporary_cache", [](const std::string& name) { return temporary_cache(name); }, "name"_a,
      "Where what can be made again lies if nothing can be kept in the user's cache; need not exist.");
  m.def(
      "trusted_path",
      [](const std::filesystem::path& path) -> std::optional<std::filesystem::path> {
        auto real = trusted_path(path);
        if (real.empty()) return {};
        return real;
      },
      "path"_a, "Without links, None where there is nothing. Raises UsageError that names who else may write there.");
  m.def(
      "trusted_text",
      [](const std::filesystem::path& path) -> std::optional<nb::bytes> {
        const auto text = trusted_text(path);
        if (!text) return {};
        return nb::bytes(text->data(), text->size());
      },
      "path"_a, "What a file holds, None where there is none. Raises UsageError as trusted_path().");
  m.def("make_folders", &make_folders, "folder"_a, "With those above it, for this user alone. Raises UsageError.");
  m.def("make_private", &make_private, "folder"_a,
        "The same. Raises UsageError as well where it is not trusted, or cannot be written to.");
  m.def(
      "write_whole",
      [](const std::filesystem::path& path, const nb::bytes& content) {
        constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
        return write_whole(path, {content.c_str(), content.size()}, kMode);
      },
      "path"_a, "content"_a, "Whole or not at all, and through no link: 0, or the error's number.");
  m.def("cpu_model", &cpu_model, "The processor's name as the kernel gives it.");
  m.def(
      "shape_of",
      [](const Communicator& communicator) {
        const JobShape shape = JobShape::of(communicator);
        nb::dict fields;
        fields["lanecast"] = shape.lanecast;
        fields["cpu"] = shape.cpu;
        fields["cores"] = shape.cores;
        fields["hosts"] = shape.hosts;
        fields["topology"] = shape.topology;
        fields["transports"] = shape.transports;
        return fields;
      },
      "communicator"_a, "What decides whether a profile holds for it, by the names in its file; see src/profiles.");
  m.def(
      "read_profile",
      [](const nb::bytes& text, bool is_model) {
        return read_profile({text.c_str(), text.size()}, is_model ? FileKind::model : FileKind::profile);
      },
      "text"_a, "is_model"_a, "The text of a profile's or a model's file. Raises UsageError that names the field.");
  m.def(
      "read_pins",
      [](const nb::bytes& text) { return read_profile({text.c_str(), text.size()}, FileKind::pins).pins.size(); },
      "text"_a, "How many pins the text of their file holds. Raises UsageError that names the field.");
  m.def(
      "read_gpu_profile",
      [](const nb::bytes& text) {
        const Models models = read_profile({text.c_str(), text.size()}, FileKind::gpus);
        const PeerFits& measured = models.peers.at(0);
        return PeerLines::among(models, measured.gpu, measured.ranks);
      },
      "text"_a,
      "What calls among such GPUs go by, by the text of a GPU profile's file: also what comes with the library, for "
      "collectives that the file does not have. Raises UsageError that names the field.");
  m.def(
      "read_gpu_model",
      [](const nb::bytes& text, int ranks) {
        const Models models = read_profile({text.c_str(), text.size()}, FileKind::model);
        if (models.gpu_models.empty()) throw UsageError("scope.gpu: none, so this is a model of calls on the CPU");
        return PeerLines::learned_from(models.gpu_models[0], ranks);
      },
      "text"_a, "ranks"_a,
      "What the text of a model's file says of calls among so many GPUs of a host. Raises UsageError that names the "
      "field.");
  m.def(
      "borders_of_gpu_model",
      [](const nb::bytes& text, int ranks) {
        const Models models = read_profile({text.c_str(), text.size()}, FileKind::model);
        nb::list rows;
        for (const GpuModel& model : models.gpu_models)
          for (const LearnedBorder& row : LearnedWays(model.ways, ranks).table()) {
            nb::list words;
            for (const WayWord& each : kWayWords)
              if (row.calls.*each.part) words.append(std::string(each.word));
            rows.append(nb::make_tuple(std::string(name_of(row.kind)), nb::tuple(words), row.from_bytes,
                                       std::string(name_of(row.engine))));
          }
        return rows;
      },
      "text"_a, "ranks"_a,
      "(collective, calls, from_bytes, engine) of a model of calls among so many GPUs of a host, as it is used.");
  m.def(
      "adopt_profile",
      [](Communicator& communicator, const nb::bytes& wanted, bool by_variable) {
        const std::string places(wanted.c_str(), wanted.size());
        const WithoutGil others_run;
        return adopt_profile(communicator, places, by_variable, raise_signals);
      },
      "communicator"_a, "wanted"_a, "by_variable"_a,
      "Choose by rank 0's files from now on. wanted: names, with commas between them, and whether the environment "
      "wants them; empty: the environment's, else the user's cache. Returns what was left aside there. Collective. "
      "Raises UsageError on every rank.");
}

}  // namespace lanecast
