// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/bootstrap_over.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/agree/volley.h"

namespace lanecast {
namespace {

/// One all-gather: everyone sends to everyone.
void post_all(Volley& volley, const Gathering& gathering, std::byte* all, std::size_t bytes) {
  if (bytes == 0) return;
  const auto place_of = [&](std::size_t member) { return Span{all + member * bytes, bytes}; };
  const auto me = static_cast<std::size_t>(gathering.me);
  for (std::size_t k = 0; k < gathering.ranks.size(); ++k) {
    if (k == me) continue;
    volley.receive(gathering.ranks[k], place_of(k));
    volley.send(gathering.ranks[k], place_of(me));
  }
}

}  // namespace

Bootstrap bootstrap_over(std::shared_ptr<Router> router, Gathering gathering) {
  const int me = gathering.me;
  Bootstrap bootstrap{.rank = me, .size = static_cast<int>(gathering.ranks.size()), .all_gather = {}};
  bootstrap.all_gather = [router = std::move(router), gathering = std::move(gathering), me](const void* in, void* out,
                                                                                            std::size_t bytes) {
    auto* all = static_cast<std::byte*>(out);
    std::memcpy(all + me * bytes, in, bytes);
    in_volley(*router, gathering, [&](Volley& volley) { post_all(volley, gathering, all, bytes); });
  };
  return bootstrap;
}

}  // namespace lanecast
