// SPDX-License-Identifier: Apache-2.0
// Which send meets which receive, and do they agree on what they carry.
#include <algorithm>
#include <utility>

#include "plan/verify.h"

namespace lanecast {
namespace {

std::string where(const Plan& plan, std::uint32_t step) {
  return "rank " + std::to_string(plan.rank) + " " + describe(plan, step);
}

std::span<const Block> carried(const Plan& plan, std::uint32_t step) {
  return plan.steps[step].kind == StepKind::send ? plan.src(plan.steps[step]) : plan.dst(plan.steps[step]);
}

/// One side of a message.
struct Post {
  int from, to;
  std::uint32_t step;
};

/// Sorts by a rank, keeping the order of equals: by counting, since a large plan has millions of posts.
std::vector<Post> sorted(const std::vector<Post>& posts, int Post::* rank, std::size_t ranks) {
  std::vector<std::size_t> next(ranks + 1);
  for (const Post& post : posts) ++next[post.*rank + 1];
  for (std::size_t r = 0; r < ranks; ++r) next[r + 1] += next[r];
  std::vector<Post> result(posts.size());
  for (const Post& post : posts) result[next[post.*rank]++] = post;
  return result;
}

void match_messages(const std::vector<Plan>& plans, Matching& matching) {
  std::vector<Post> sends, recvs;
  for (const Plan& plan : plans)
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      if (!talks(step)) continue;
      if (step.kind == StepKind::send)
        sends.push_back({plan.rank, step.peer, i});
      else
        recvs.push_back({step.peer, plan.rank, i});
    }
  // Both by (to, from, list order); they come by rank and list order.
  sends = sorted(sends, &Post::to, plans.size());
  recvs = sorted(sorted(recvs, &Post::from, plans.size()), &Post::to, plans.size());

  const auto line = [](const Post& post) { return std::pair(post.to, post.from); };
  const auto lonely = [&](const Plan& plan, std::uint32_t i) {
    throw PlanError(where(plan, i) + ": message " + std::to_string(plan.steps[i].ordinal) +
                    " has no counterpart on rank " + std::to_string(plan.steps[i].peer));
  };
  for (std::size_t k = 0; k < std::max(sends.size(), recvs.size()); ++k) {
    if (k == recvs.size() || (k < sends.size() && line(sends[k]) < line(recvs[k])))
      lonely(plans[sends[k].from], sends[k].step);
    if (k == sends.size() || line(recvs[k]) < line(sends[k])) lonely(plans[recvs[k].to], recvs[k].step);
    const Plan &sender = plans[sends[k].from], &receiver = plans[recvs[k].to];
    const std::uint32_t send = sends[k].step, recv = recvs[k].step;
    if (!same_pieces(carried(sender, send), carried(receiver, recv)))
      throw PlanError(where(sender, send) + ": the receiver expects other pieces, " + where(receiver, recv));
    matching.partner[sender.rank][send] = recv;
    matching.partner[receiver.rank][recv] = send;
  }
}

}  // namespace

Matching match(const std::vector<Plan>& plans) {
  Matching matching;
  for (const Plan& plan : plans) matching.partner.emplace_back(plan.steps.size(), Matching::kNone);
  match_messages(plans, matching);
  match_groups(plans, matching);
  return matching;
}

}  // namespace lanecast
