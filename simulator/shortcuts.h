// SPDX-License-Identifier: Apache-2.0
// What SimGrid and SMPI do for each message and nothing here needs, left out.
#pragma once

namespace lanecast::simulator {

/// From now on a rank's messages are posted without a turn of the others between them. Of messages that end at the same
/// moment another may then be the first: a rank that has several to unpack, as in a hierarchy in chunks, goes on with
/// another one, and the call takes some other time. A ring's ranks have one.
void post_at_once();

}  // namespace lanecast::simulator
