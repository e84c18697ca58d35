// SPDX-License-Identifier: Apache-2.0
// Messages outside of calls, posted together and waited for: what ranks tell each other, and what links are timed with.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <vector>

#include "base/error.h"
#include "base/failure.h"
#include "base/running_time.h"
#include "runtime/agree/bootstrap_over.h"
#include "runtime/watch/patience.h"
#include "runtime/wires/router.h"

namespace lanecast {

class Volley {
 public:
  /// Both outlive it.
  Volley(Router& router, const Gathering& gathering, Rivals rivals)
      : router_(router), gathering_(gathering), rivals_(rivals) {}

  /// peer: by its rank in the router. Messages between two ranks match in the order in which they are posted.
  void receive(int peer, const Span& memory) { router_.to(peer).post_recv(add(peer, memory, /*receives=*/true)); }
  void send(int peer, const Span& memory) { router_.to(peer).post_send(add(peer, memory, /*receives=*/false)); }

  /// Until all are through. Throws for lost peers, and at the deadline.
  void wait();
  /// Puts the reason, where `meanwhile` of the gathering knows one, in the place of an error.
  void look_for_reasons() const;

 private:
  struct Shot final : Posted {
    void arrived() override {
      done = true;
      --volley->open_;
    }
    Volley* volley = nullptr;
    Span span;
    bool receives = false;
    bool done = false;
  };

  Shot& add(int peer, const Span& memory, bool receives);
  std::vector<int> missing() const;
  void look_around(double waited_s);

  Router& router_;
  const Gathering& gathering_;
  Rivals rivals_;
  std::deque<Shot> messages_;  // which stay where they are posted
  std::size_t open_ = 0;
  RunningTime ran_;
};

/// Has post(volley) post messages, and waits for them. After an error the router is of no further use: whoever sends by
/// it all the same, to tell others of that error, hears it again.
template <class Post>
void in_volley(Router& router, const Gathering& gathering, const Post& post, Rivals rivals = Rivals::ranks) {
  if (router.aborted()) raise(router.aborted());
  Volley volley(router, gathering, rivals);
  try {
    try {
      post(volley);
      volley.wait();
    } catch (const TransportError&) {
      volley.look_for_reasons();
      throw;
    }
  } catch (const std::exception& error) {
    router.abort(failure_of(error));  // before the messages go, which peers may be reading
    throw;
  }
}

}  // namespace lanecast
