// SPDX-License-Identifier: Apache-2.0
// Included before an adapter of the wheel: headers of torch call std::condition_variable::wait, whose newest version
// (GLIBCXX_3.4.30) is missing where GCC 11 made the system's libstdc++. The one before it does the same.
#pragma once

#define LANECAST_WAIT "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"
asm(".symver " LANECAST_WAIT "," LANECAST_WAIT "@GLIBCXX_3.4.11");
