// SPDX-License-Identifier: Apache-2.0
// The files of `lanecast tune` and `lanecast learn train`, and those of pins, as the core takes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "profiles/job_shape.h"
#include "select/models.h"

namespace lanecast {

/// A profile has links, a model what was learned; pins are what somebody has written down, a GPU profile the ways among
/// the GPUs of a host.
enum class FileKind : std::uint8_t { profile, model, pins, gpus };
struct ProfileFile {
  FileKind kind = FileKind::profile;
  Models models;
};

/// Nothing is wrong with the file, but it holds for other jobs or another version of Lanecast.
struct OtherJobsError : UsageError {
  using UsageError::UsageError;
};

/// A file that the user has named is read whoever has written it; one that was found only where nobody else can have.
enum class NamedBy : std::uint8_t { user, nobody };

/// Throws UsageError (file and field) for one that is missing, damaged, stale, or holds for other jobs.
ProfileFile read_profile_file(const std::filesystem::path& path, const JobShape& here, NamedBy named_by);
/// The text of a file that has to be of this kind, of whatever jobs. Throws UsageError (field).
Models read_profile(const std::string& text, FileKind kind);

// What makes these up. All throw UsageError (field).
Kind kind_in(const JsonField& field);
Models profile_from(const JsonField& file);
/// Of calls on the CPU as `learned`, of calls on GPUs as `gpu_models`.
Models model_from(const JsonField& file);
std::vector<Pin> pins_from(const JsonField& file);
PeerFits peers_from(const JsonField& file);
/// Why a GPU profile does not hold for jobs of this shape, whatever their GPUs; empty: it does.
std::string gpu_differences(const JsonField& file, const JobShape& here);
/// Why a model does not hold for jobs of this shape; empty: it does.
std::string scope_differences(const JsonField& file, const JobShape& here);

/// "4x2" of "16x4x2"; empty where there is one level, or nodes differ.
std::string node_of(const std::string& topology);

}  // namespace lanecast
