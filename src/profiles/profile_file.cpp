// SPDX-License-Identifier: Apache-2.0
#include "profiles/profile_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/trust.h"
#include "profiles/json_field.h"
#include "runtime/wires/links.h"

namespace lanecast {
namespace {

/// A field marks what a file is. Python writes the same names and versions.
struct FileFormat {
  const char* name;
  const char* mark;
  int version;
  const char* remedy;
};
constexpr FileFormat kProfile{"profile", "lanecast_profile", 1, "measure again with `lanecast tune --quick`"};
constexpr FileFormat kModel{"model", "lanecast_model", 2, "train it again with `lanecast learn train`"};
constexpr FileFormat kGpus{"GPU profile", "lanecast_gpu_profile", 2,
                           "measure again with `lanecast tune --device cuda`"};
constexpr FileFormat kPins{"pins", "lanecast_pins", 1, "write it anew, as docs/explanation/learning.md has it"};

const FileFormat& format_of(FileKind kind) {
  switch (kind) {
    case FileKind::profile:
      return kProfile;
    case FileKind::model:
      return kModel;
    case FileKind::gpus:
      return kGpus;
    case FileKind::pins:
      break;
  }
  return kPins;
}

std::string text_of(const std::filesystem::path& path, NamedBy named_by) {
  if (named_by == NamedBy::nobody) {
    if (auto text = trusted_text(path)) return std::move(*text);
    throw UsageError(std::strerror(ENOENT));
  }
  errno = 0;
  try {
    std::ifstream file(path, std::ios::binary);
    if (file.is_open()) return {std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {
    // A folder opens, and then cannot be read.
  }
  throw UsageError(std::strerror(errno));
}

/// Names may hold bytes that no message can.
std::string printable(const std::filesystem::path& path) {
  const std::string quoted =
      nlohmann::json(path.native()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

nlohmann::json parsed(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, …; last read: …", and what was read is no text for
    // people.
    std::string_view words = error.what();
    words = words.substr(0, words.find("; last read"));
    throw UsageError("is no JSON: " + std::string(words.substr(words.find(' ') + 1)));
  }
}

void check_version(const JsonField& file, const FileFormat& format) {
  if (!file.has(format.mark)) throw UsageError(std::string(format.mark) + ": missing, so this is no " + format.name);
  if (const JsonField version = file[format.mark]; version.str() != std::to_string(format.version))
    throw OtherJobsError(std::string("is stale: ") + format.mark + ": " + version.str() + ", this Lanecast reads " +
                         std::to_string(format.version) + "; " + format.remedy);
}

Models models_in(const JsonField& file, FileKind kind) {
  check_version(file, format_of(kind));
  if (kind == FileKind::profile) return profile_from(file);
  if (kind == FileKind::model) return model_from(file);
  Models models;
  if (kind == FileKind::gpus)
    models.peers = {peers_from(file)};
  else
    models.pins = pins_from(file);
  return models;
}

void check_is_for(const JobShape& here, const JsonField& file, FileKind kind) {
  if (kind == FileKind::pins) return;  // whoever has written it says where it holds
  const bool is_model = kind == FileKind::model, of_gpus = kind == FileKind::gpus;
  const std::string others = is_model  ? scope_differences(file, here)
                             : of_gpus ? gpu_differences(file, here)
                                       : differences(JobShape::from(file["shape"]), here);
  if (others.empty()) return;
  if (is_model) throw OtherJobsError("learned from other jobs (" + others + ")");
  throw OtherJobsError("was measured elsewhere (" + others + "); measure here with `lanecast tune --" +
                       (of_gpus ? "device cuda" : "quick") + "`, or set LANECAST_PROFILE=none");
}

}  // namespace

Kind kind_in(const JsonField& field) {
  if (const auto kind = kind_from(field.text()); kind && *kind != Kind::composition) return *kind;
  std::string known;
  for (const Kind kind : kAllKinds) known.append(known.empty() ? "" : ", ").append(name_of(kind));
  field.refuse(field.str() + "; known: " + known);
}

Models profile_from(const JsonField& file) {
  file.has_only({kProfile.mark, "shape", "links", "reduce_s_per_byte", "fits", "overlaps", "measured"});
  const JobShape shape = JobShape::from(file["shape"]);
  Models models;
  for (const JsonField& link : file["links"].items()) {
    link.has_only({"level", "transport", "alpha_s", "beta_s_per_byte", "error"});
    static_cast<void>(link["level"].text());
    static_cast<void>(link["error"].number());
    models.links.push_back({link["alpha_s"].number(), link["beta_s_per_byte"].number()});
    models.links.back().source = LinkSource::file;
    models.links.back().filling = filling_of(link["transport"].text());
  }
  models.reduce_s_per_byte = file["reduce_s_per_byte"].number();
  const auto levels = static_cast<std::int64_t>(models.links.size());
  if (levels == 0 || models.links.size() != shape.transports.size())
    file["links"].refuse(std::to_string(levels) + " levels, but shape.transports has " +
                         std::to_string(shape.transports.size()));
  for (const JsonField& fit : file["fits"].items()) {
    fit.has_only({"collective", "algorithm", "level", "ranks", "from_bytes", "alpha_s", "beta_s_per_byte", "error"});
    static_cast<void>(fit["ranks"].whole());
    static_cast<void>(fit["error"].number());
    const std::int64_t level = fit["level"].whole(), from_bytes = fit["from_bytes"].whole();
    if (from_bytes < 0) fit["from_bytes"].refuse(fit["from_bytes"].str() + " is negative");
    if (level < -1 || level >= levels)
      fit["level"].refuse(fit["level"].str() + ", of " + std::to_string(levels) + " levels");
    models.fits.push_back({kind_in(fit["collective"]), fit["algorithm"].text(), static_cast<int>(level),
                           static_cast<std::size_t>(from_bytes), fit["alpha_s"].number(),
                           fit["beta_s_per_byte"].number()});
  }
  for (const JsonField& overlap : file["overlaps"].items()) {
    overlap.has_only({"collective", "hidden", "latency", "scale", "error"});
    static_cast<void>(overlap["error"].number());
    models.overlaps.push_back({kind_in(overlap["collective"]), overlap["hidden"].number(), overlap["latency"].number(),
                               overlap["scale"].number()});
  }
  if (file.has("measured")) file["measured"].is_table_of_texts();
  return models;
}

Models read_profile(const std::string& text, FileKind kind) {
  const nlohmann::json json = parsed(text);
  return models_in(JsonField(json), kind);
}

ProfileFile read_profile_file(const std::filesystem::path& path, const JobShape& here, NamedBy named_by) {
  FileKind kind = FileKind::profile;
  const auto named = [&](const UsageError& error) {
    return std::string(format_of(kind).name) + " " + printable(path) + ": " + error.what();
  };
  try {
    const nlohmann::json json = parsed(text_of(path, named_by));
    const JsonField file(json);
    for (const FileKind each : {FileKind::model, FileKind::pins, FileKind::gpus})
      if (file.has(format_of(each).mark)) kind = each;
    Models models = models_in(file, kind);
    check_is_for(here, file, kind);
    return {kind, std::move(models)};
  } catch (const OtherJobsError& error) {
    throw OtherJobsError(named(error));
  } catch (const UsageError& error) {
    throw UsageError(named(error));
  }
}

}  // namespace lanecast
