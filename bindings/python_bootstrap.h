// SPDX-License-Identifier: Apache-2.0
// The bootstrap of ranks that come together by a function of Python's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>

#include <cstring>
#include <functional>

#include "base/bootstrap.h"
#include "base/error.h"
#include "gil.h"

namespace lanecast {

using PyAllGather = std::function<nanobind::bytes(nanobind::bytes)>;

inline Bootstrap bootstrap_from(int rank, int size, const PyAllGather& all_gather) {
  return {rank, size, [all_gather, size](const void* in, void* out, std::size_t bytes) {
            const WithGil gil;
            const nanobind::bytes all = all_gather(nanobind::bytes(in, bytes));
            if (all.size() != bytes * size) throw UsageError("all_gather returned a wrong number of bytes");
            std::memcpy(out, all.data(), all.size());
          }};
}

}  // namespace lanecast
