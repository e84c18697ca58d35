// SPDX-License-Identifier: Apache-2.0
// A plain dictionary as the way of plans out of the core and in again: JSON, pictures, mutants for tests.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/composition.h"
#include "plan/plan.h"
#include "plan/verify.h"

namespace lanecast {

using PlanDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;
using ProofDict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::int_>;

/// [(part, (numerator, denominator), (numerator, denominator)), …]
Pieces pieces_from(nanobind::handle list);

/// The parts' numbers.
std::vector<std::int32_t> listed(PartRange parts);

/// Throws UsageError for names of no collective.
Kind kind_named(std::string_view name);

PlanDict to_dict(const Plan& plan);
PlanDict to_dict(const Composition& composition);
ProofDict to_dict(const Proof& proof);

/// Throws UsageError for what is no plan at all; whether it is a right one is for verify() to say.
Plan from_dict(const PlanDict& dict);

}  // namespace lanecast
