// SPDX-License-Identifier: Apache-2.0
// Models on their way from rank 0 to the others, which run the same build.
#pragma once

#include <string>
#include <string_view>

#include "select/models.h"

namespace lanecast {

std::string bytes_of(const Models& models);
Models models_from(std::string_view bytes);

}  // namespace lanecast
