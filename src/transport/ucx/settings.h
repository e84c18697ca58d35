// SPDX-License-Identifier: Apache-2.0
// What is changed in UCX's settings before a context is made of them.
#pragma once

#include <string>
#include <string_view>

#include "transport/ucx/ucp.h"

namespace lanecast::ucx {

/// May UCX call the driver of a GPU, also while messages move?
enum class Drivers : bool { apart, called };

/// Settings as UCX has them by its file and the environment, but for `device`, if one is named, and for what would call
/// a driver, where none is to be called.
class Settings {
 public:
  Settings(const Ucp& ucp, const std::string& device, Drivers drivers);
  ~Settings() { ucp_.ucp_config_release(config_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  const Config* get() const { return config_; }

 private:
  /// "all" for UCX_TLS=all.
  std::string value_of(std::string_view name) const;
  void set(const char* name, const std::string& value);

  const Ucp& ucp_;
  Config* config_ = nullptr;
};

/// The same list, as UCX_TLS has it, without the transports that call a GPU's driver.
std::string without_drivers(std::string_view transports);

}  // namespace lanecast::ucx
