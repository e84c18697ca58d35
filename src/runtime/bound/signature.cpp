// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/signature.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "base/mix.h"
#include "plan/composition.h"
#include "runtime/bound/layout.h"

namespace lanecast {
namespace {

bool uneven(const std::vector<std::size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end();
}

/// The collective and its arguments; the same number for each part may be given once or one by one.
std::string what_of(const Plan& plan, const Shape& shape) {
  if (shape.is_barrier) return "barrier";
  std::string text(name_of(plan.collective.kind));
  if (plan.collective.composition) {
    char digest[20];
    std::snprintf(digest, sizeof digest, " %016llx",
                  static_cast<unsigned long long>(plan.collective.composition->digest()));
    text += digest;
  }
  text += " of ";
  if (shape.own_counts())
    text += "own counts";
  else if (uneven(shape.counts))
    text += std::to_string(full_bytes(plan, shape) / size_of(shape.dtype)) + " in all";
  else
    text += std::to_string(shape.counts.empty() ? shape.count : shape.counts[0]);
  text += " " + std::string(name_of(shape.dtype));
  if (plan.collective.reduces()) text += ", " + std::string(name_of(shape.op));
  if (plan.collective.reproducible) text += " in rank order";
  if (has_root(plan.collective.kind)) text += ", root " + std::to_string(plan.collective.root);
  return text;
}

}  // namespace

std::size_t full_bytes(const Plan& plan, const Shape& shape) {
  if (shape.own_counts()) return 0;
  const int parts = plan.collective.kind == Kind::all_to_all ? plan.collective.size : plan.collective.parts();
  const std::size_t elements = shape.counts.empty()
                                   ? shape.count * static_cast<std::size_t>(parts)
                                   : std::accumulate(shape.counts.begin(), shape.counts.end(), std::size_t{0});
  return elements * size_of(shape.dtype);
}

Signature signature_of(const Plan& plan, const Shape& shape) {
  Signature signature;
  std::string& text = signature.text;
  text = what_of(plan, shape);
  text += ", by " + plan.algorithm + " in ";
  if (shape.piece)  // which gives each rank chunks of a number of its own
    text += "pieces of " + std::to_string(shape.piece);
  else
    text += std::to_string(shape.chunks) + (shape.chunks == 1 ? " chunk" : " chunks");
  if (shape.slice.count > 1)
    text += ", slice " + std::to_string(shape.slice.index) + " of " + std::to_string(shape.slice.count);
  for (const char letter : text) signature.hash = mix(signature.hash, static_cast<unsigned char>(letter));
  if (uneven(shape.counts))
    for (const std::size_t count : shape.counts) signature.hash = mix(signature.hash, count);
  signature.own = own_counts_of(plan, shape);
  return signature;
}

Signature signature_on_gpus(const Plan& plan, const Shape& shape) {
  Signature signature = signature_of(plan, shape);
  signature.text += " on GPUs";
  signature.hash = mix(signature.hash, 1);
  signature.own = nullptr;  // ranks tell each other their counts as they begin
  return signature;
}

}  // namespace lanecast
