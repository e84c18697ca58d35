// SPDX-License-Identifier: Apache-2.0
// One value of a JSON file and the way to it, so that whatever is wrong with it is named: "fits[3].alpha_s: missing".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lanecast {

/// Every function throws UsageError.
class JsonField {
 public:
  explicit JsonField(const nlohmann::json& file) : JsonField(file, "") {}

  /// Of a table: one of its fields, which has to be there.
  JsonField operator[](std::string_view name) const;
  /// Of a list.
  std::vector<JsonField> items() const;
  /// Of a list of so many.
  std::vector<JsonField> items(std::size_t expected) const;
  /// A table with no fields but these.
  void has_only(std::initializer_list<std::string_view> names) const;
  bool has(std::string_view name) const;

  std::string text() const;
  std::int64_t whole() const;
  /// Finite; `number` also of at least 0, as all seconds, rates and shares are.
  double number() const;
  double signed_number() const;
  bool truth() const;
  /// Texts and nothing else; for people, so the values are not handed out.
  void is_table_of_texts() const;
  std::vector<std::string> texts() const;
  std::vector<double> numbers(std::size_t expected) const;

  [[noreturn]] void refuse(const std::string& what) const;
  /// The value as the file has it, for words.
  std::string str() const;

 private:
  std::string path_of(std::string_view name) const;
  JsonField(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace lanecast
