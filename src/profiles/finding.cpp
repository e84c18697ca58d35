// SPDX-License-Identifier: Apache-2.0
#include "profiles/finding.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/user_cache.h"
#include "profiles/job_shape.h"
#include "profiles/profile_file.h"

namespace lanecast {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShipped = "machine:";

constexpr const char* kVariable = "LANECAST_PROFILE";

std::string from_environment() {
  const char* value = std::getenv(kVariable);
  return value ? value : "";
}

constexpr std::string_view kDigits = "0123456789abcdef", kNamed = "0123456789abcdefghijklmnopqrstuvwxyz-";

/// "2x4:cyclic" -> "2x4-cyclic": a run of anything else is a dash.
std::string in_a_name(const std::string& topology) {
  std::string name;
  for (const char c : topology)
    if (c == '+' || (c != '-' && kNamed.find(c) != std::string_view::npos))
      name += c;
    else if (!name.ends_with('-'))
      name += '-';
  return name;
}

/// A digest of eight digits, behind words where there may be such: "nvidia-h100-0123cdef.json".
bool ends_in_digest(std::string_view rest, bool may_have_words) {
  constexpr std::string_view kEnd = "01234567.json";
  if (rest.size() < kEnd.size() || !rest.ends_with(kEnd.substr(8))) return false;
  const std::size_t words = rest.size() - kEnd.size();
  return (words == 0 || may_have_words) && rest.find_first_not_of(kNamed) >= words &&
         rest.substr(words, 8).find_first_not_of(kDigits) == rest.npos;
}

/// Python names a file by its shape and a digest of it; what stands in front of the digest says enough.
bool may_be_ours(const std::string& name, const JobShape& here) {
  const std::string node = node_of(here.topology), over = "-" + joined(here.transports, "+") + "-";
  const auto has = [&](const std::string& front, bool may_have_words) {
    return name.starts_with(front) && ends_in_digest(std::string_view(name).substr(front.size()), may_have_words);
  };
  // GPUs have their names before the digest. What a model of GPUs holds for, its scope says.
  return has(in_a_name(here.topology) + over, false) || has("model-" + (node.empty() ? "flat" : node) + over, false) ||
         has("gpu-" + std::to_string(here.ranks) + "-", true) || has("gpu-model-", true);
}

std::vector<fs::path> files_in(const fs::path& folder, const JobShape& here) {
  std::vector<fs::path> found;
  std::error_code unreadable;
  fs::directory_iterator entry(folder, unreadable);
  if (unreadable == std::errc::permission_denied)
    throw UsageError("profiles " + folder.string() + ": " + unreadable.message());
  for (const fs::directory_iterator end; !unreadable && entry != end; entry.increment(unreadable))
    if (std::error_code gone; may_be_ours(entry->path().filename(), here) && entry->is_regular_file(gone))
      found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

class Found {
 public:
  explicit Found(JobShape here) : here_(std::move(here)) {}

  /// left_aside: as of a folder, for a file of other jobs.
  void add_file(const fs::path& path, std::vector<std::string>* left_aside) {
    try {
      ProfileFile file = read_profile_file(path, here_, NamedBy::user);
      for (PeerFits& each : file.models.peers) each.file = path.string();
      for (GpuModel& each : file.models.gpu_models) each.file = path.string();
      keep(path, std::move(file));
    } catch (const OtherJobsError& error) {
      if (!left_aside) throw;
      left_aside->emplace_back(error.what());
    }
  }

  /// Files that hold for other jobs or versions are no concern of this job. `left_aside`: takes why others are not
  /// used, instead of an exception.
  void add_folder(const fs::path& folder, NamedBy named_by, std::vector<std::string>* left_aside) {
    const auto unless_left_aside = [&](const auto& add) {
      try {
        add();
      } catch (const OtherJobsError&) {
        return;
      } catch (const UsageError& error) {
        if (!left_aside) throw;
        left_aside->emplace_back(error.what());
      }
    };
    std::vector<fs::path> paths;
    unless_left_aside([&] { paths = files_in(folder, here_); });
    for (const fs::path& path : paths) unless_left_aside([&] { keep(path, read_profile_file(path, here_, named_by)); });
  }

  /// Without links where nothing was found.
  Models models(const Models& assumed) {
    if (std::ranges::count(has_, true) == 0 && peers_.empty() && gpu_models_.empty()) return {};
    if (!has_[static_cast<int>(FileKind::profile)]) profile_ = assumed;
    profile_.learned = std::move(learned_);
    profile_.pins = std::move(pins_);
    profile_.peers = std::move(peers_);
    profile_.gpu_models = std::move(gpu_models_);
    return std::move(profile_);
  }

 private:
  void keep(const fs::path& path, ProfileFile file) {
    if (file.kind == FileKind::gpus) return keep_peers(path, std::move(file.models.peers));
    if (!file.models.gpu_models.empty()) return keep_gpu_models(path, std::move(file.models.gpu_models));
    bool& has = has_[static_cast<int>(file.kind)];
    if (has) throw UsageError("profile " + path.string() + ": is the second of its kind that is named");
    has = true;
    switch (file.kind) {
      case FileKind::profile:
        profile_ = std::move(file.models);
        break;
      case FileKind::model:
        learned_ = std::move(file.models.learned);
        break;
      case FileKind::pins:
        pins_ = std::move(file.models.pins);
        break;
      case FileKind::gpus:
        break;
    }
  }

  /// Which of them holds is known when the GPUs are.
  void keep_peers(const fs::path& path, std::vector<PeerFits> found) {
    for (PeerFits& each : found) {
      if (std::ranges::count(peers_, each.gpu, &PeerFits::gpu) > 0)
        throw UsageError("GPU profile " + path.string() + ": is the second for " + each.gpu + " that is named");
      peers_.push_back(std::move(each));
    }
  }

  void keep_gpu_models(const fs::path& path, std::vector<GpuModel> found) {
    for (GpuModel& each : found) {
      const auto is_twin = [&](const GpuModel& o) { return o.gpu == each.gpu && o.one_host == each.one_host; };
      if (std::ranges::count_if(gpu_models_, is_twin) > 0)
        throw UsageError("model " + path.string() + ": is the second for " + each.gpu + " that is named");
      gpu_models_.push_back(std::move(each));
    }
  }

  JobShape here_;
  std::array<bool, 3> has_{};  // by FileKind
  Models profile_;
  std::vector<Learned> learned_;
  std::vector<Pin> pins_;
  std::vector<PeerFits> peers_;
  std::vector<GpuModel> gpu_models_;
};

Models find(const Communicator& communicator, const std::string& wanted, std::vector<std::string>& left_aside) {
  Found found(JobShape::of(communicator));
  // A file that is named for the job need not be for each part of it.
  std::vector<std::string>* const of_the_job = communicator.options().part ? &left_aside : nullptr;
  if (wanted.empty()) found.add_folder(user_cache("profiles"), NamedBy::nobody, &left_aside);
  std::istringstream places(wanted);
  for (std::string place; wanted != "none" && std::getline(places, place, ',');) {
    std::error_code missing;
    if (place.starts_with(kShipped))
      throw UsageError("profile " + place +
                       ": what comes with Lanecast lies in its Python package, in learn/shipped; " + "name the file");
    if (place.empty())
      found.add_folder(user_cache("profiles"), NamedBy::nobody, nullptr);
    else if (fs::is_directory(place, missing))
      found.add_folder(place, NamedBy::user, nullptr);
    else
      found.add_file(place, of_the_job);
  }
  return found.models(communicator.choosing().models());
}

}  // namespace

std::vector<std::string> adopt_profile(Communicator& communicator, std::string wanted, bool by_variable,
                                       const Interrupt& interrupt) {
  if (communicator.size() == 1) return {};
  if (wanted.empty()) {
    wanted = from_environment();
    by_variable = !wanted.empty();
  }
  Models models;
  std::string refusal;
  std::vector<std::string> left_aside;
  try {
    if (communicator.rank() == 0) models = find(communicator, wanted, left_aside);
  } catch (const std::exception& error) {  // all ranks hear of it
    refusal = (by_variable ? std::string(kVariable) + ": " : std::string()) + error.what();
  }
  communicator.adopt(models, refusal, interrupt);
  return left_aside;
}

}  // namespace lanecast
