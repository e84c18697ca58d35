// SPDX-License-Identifier: Apache-2.0
// The bootstrap of ranks that come together by a function of Python's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "base/bootstrap.h"
#include "base/error.h"
#include "gil.h"

namespace lanecast {

using PyAllGather = std::function<nanobind::object(nanobind::bytes)>;

inline Bootstrap bootstrap_from(int rank, int size, const PyAllGather& all_gather) {
  return {rank, size, [all_gather, size](const void* in, void* out, std::size_t bytes) {
            const WithGil gil;
            const nanobind::object returned = all_gather(nanobind::bytes(in, bytes));
            if (!nanobind::isinstance<nanobind::bytes>(returned))
              throw UsageError("all_gather: returned " +
                               nanobind::cast<std::string>(nanobind::repr(nanobind::handle(returned.type()))) +
                               ", expected bytes");
            const auto all = nanobind::borrow<nanobind::bytes>(returned);
            if (all.size() != bytes * size)
              throw UsageError("all_gather: returned " + std::to_string(all.size()) + " bytes, expected " +
                               std::to_string(bytes * size));
            std::memcpy(out, all.data(), all.size());
          }};
}

}  // namespace lanecast
