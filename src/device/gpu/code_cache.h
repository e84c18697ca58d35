// SPDX-License-Identifier: Apache-2.0
// Folders of this user with machine code, each file under all that it was made from: never stale, never another's.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lanecast::gpu {

class CodeCache {
 public:
  /// folder: made where it is missing; where it can hold nothing, the user's folder of temporary files stands in for
  /// it. Empty: nothing is kept.
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

  /// The code under this key, if it is kept.
  std::optional<std::string> find(const std::string& key) const;

  /// The same, else what `make` returns, which is kept if it can be. Of several processes (and threads)
  /// that ask for one key, one makes it and the others wait for that one, but no longer than a deadline.
  std::string get(const std::string& key, const std::function<std::string()>& make) const;

 private:
  std::string folder_;
};

}  // namespace lanecast::gpu
