// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/code_file.h"

#include <array>
#include <cstdio>

#include "base/mix.h"

namespace lanecast::gpu {
namespace {

/// What comes before the code: a file of another key cannot be taken for this one, nor one that is cut off.
std::string header_of(const std::string& key, std::string_view code) {
  return "lanecast machine code\n" + key + "\nchecksum " + in_hex(mix(0, code)) + "\n\n";
}

}  // namespace

std::string in_hex(std::uint64_t number) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return digits.data();
}

std::string code_file(const std::string& key, std::string_view code) { return header_of(key, code).append(code); }

std::optional<std::string> code_in(std::string_view content, const std::string& key) {
  const std::size_t header_bytes = header_of(key, "").size();
  if (content.size() <= header_bytes) return {};
  const std::string_view code = content.substr(header_bytes);
  if (!content.starts_with(header_of(key, code))) return {};
  return std::string(code);
}

}  // namespace lanecast::gpu
