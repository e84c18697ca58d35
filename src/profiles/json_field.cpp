// SPDX-License-Identifier: Apache-2.0
#include "profiles/json_field.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lanecast {

using Json = nlohmann::json;

void JsonField::refuse(const std::string& what) const {
  throw UsageError((path_.empty() ? "file" : path_) + ": " + what);
}

std::string JsonField::str() const { return value_.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool JsonField::has(std::string_view name) const { return value_.is_object() && value_.contains(name); }

std::string JsonField::path_of(std::string_view name) const {
  std::string path = path_;
  if (!path.empty()) path += '.';
  return path.append(name);
}

JsonField JsonField::operator[](std::string_view name) const {
  if (!value_.is_object()) refuse("expected named fields");
  const auto found = value_.find(name);
  if (found == value_.end()) throw UsageError(path_of(name) + ": missing");
  return {*found, path_of(name)};
}

void JsonField::has_only(std::initializer_list<std::string_view> names) const {
  if (!value_.is_object()) refuse("expected named fields");
  for (const auto& [name, value] : value_.items()) {
    if (std::ranges::count(names, name) > 0) continue;
    std::string known;
    for (const std::string_view each : names) known.append(known.empty() ? "" : ", ").append(each);
    throw UsageError(path_of(name) + ": unknown; known: " + known);
  }
}

std::vector<JsonField> JsonField::items() const {
  if (!value_.is_array()) refuse(str() + " is no list");
  std::vector<JsonField> found;
  found.reserve(value_.size());
  for (std::size_t k = 0; k < value_.size(); ++k)
    found.push_back(JsonField(value_[k], path_ + "[" + std::to_string(k) + "]"));
  return found;
}

std::vector<JsonField> JsonField::items(std::size_t expected) const {
  std::vector<JsonField> found = items();
  if (found.size() != expected) refuse(std::to_string(found.size()) + " entries, expected " + std::to_string(expected));
  return found;
}

std::string JsonField::text() const {
  if (!value_.is_string()) refuse(str() + " is no text");
  return value_.get<std::string>();
}

std::int64_t JsonField::whole() const {
  if (!value_.is_number_integer()) refuse(str() + " is no whole number");
  if (value_.is_number_unsigned() && value_.get<std::uint64_t>() > INT64_MAX) refuse("a number of more than 64 bits");
  return value_.get<std::int64_t>();
}

double JsonField::signed_number() const {
  if (value_.is_number_integer()) return static_cast<double>(whole());
  const double number = value_.is_number() ? value_.get<double>() : NAN;
  if (!std::isfinite(number)) refuse(str() + " is no number");
  return number;
}

double JsonField::number() const {
  const double found = signed_number();
  if (found < 0) refuse(str() + " is no number of at least 0");
  return found;
}

bool JsonField::truth() const {
  if (!value_.is_boolean()) refuse(str() + " is neither true nor false");
  return value_.get<bool>();
}

void JsonField::is_table_of_texts() const {
  if (!value_.is_object()) refuse(str() + " is no table");
  for (const auto& [name, value] : value_.items()) static_cast<void>(JsonField(value, path_of(name)).text());
}

std::vector<std::string> JsonField::texts() const {
  std::vector<std::string> found;
  for (const JsonField& item : items()) found.push_back(item.text());
  return found;
}

std::vector<double> JsonField::numbers(std::size_t expected) const {
  std::vector<double> found;
  for (const JsonField& item : items(expected)) found.push_back(item.signed_number());
  return found;
}

}  // namespace lanecast
