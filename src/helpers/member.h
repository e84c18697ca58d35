// SPDX-License-Identifier: Apache-2.0
// One helper as its leader knows it.
#pragma once

#include <memory>

#include "helpers/channel.h"
#include "helpers/helper_process.h"

namespace lanecast::helpers {

struct Member {
  int place = 0;                           // among the processes of its leader, which is 0 itself
  std::shared_ptr<HelperProcess> process;  // shared with split communicators; goes after the channel
  std::unique_ptr<Channel> channel;
};

}  // namespace lanecast::helpers
