// SPDX-License-Identifier: Apache-2.0
// A file of machine code, which says itself what it was made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lanecast::gpu {

std::string in_hex(std::uint64_t number);

/// key: lines of text, all that the code depends on.
std::string code_file(const std::string& key, std::string_view code);

/// Of such a file; nothing where it is of another key, cut off or spoilt.
std::optional<std::string> code_in(std::string_view content, const std::string& key);

}  // namespace lanecast::gpu
