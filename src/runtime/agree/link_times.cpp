// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/link_times.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/agree/volley.h"

namespace lanecast {
namespace {

// On slow links, of all rounds. Ranks that have no counterpart wait meanwhile, so it is a small part of their deadline.
constexpr double kBudget_s = 0.3, kOfDeadline = 0.1;
constexpr int kMostRounds = 2;

struct ProbeOrder {
  int messages = kEnd;
  std::size_t bytes = 0;

  static constexpr int kEnd = -1;
};

template <class Value>
Span span_of(Value& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}

class TimedPair {
 public:
  TimedPair(const TimingParts& parts, int peer) : parts_(parts), peer_(peer) {}

  /// So many messages each way, all at once.
  void post(Volley& volley, const ProbeOrder& order) {
    std::byte* const base = order.bytes <= LinkProbe::kShortBytes ? short_.data() : parts_.memory.base;
    for (int k = 0; k < order.messages; ++k)
      volley.receive(peer_, {base + static_cast<std::size_t>(k + 1) * order.bytes, order.bytes});
    for (int k = 0; k < order.messages; ++k) volley.send(peer_, {base, order.bytes});
  }
  template <class Post>
  void exchange(const Post& post_all) const {
    in_volley(parts_.router, parts_.gathering, post_all, parts_.rivals);
  }
  int peer() const { return peer_; }
  double now_s() const { return parts_.now_s(); }

 private:
  const TimingParts& parts_;
  int peer_;
  // On the host, where those of calls lie as well, see kLeastOnGpu.
  std::array<std::byte, (LinkProbe::kMostMessages + 1) * LinkProbe::kShortBytes> short_{};
};

/// The half that says what is timed, and looks at the clock.
class Leader final : public LinkProbe {
 public:
  explicit Leader(TimedPair& pair) : pair_(pair) {}
  double now_s() override { return pair_.now_s(); }
  void volley(int messages, std::size_t bytes) override {
    ProbeOrder order{messages, bytes};
    std::byte got_all{};
    pair_.exchange([&](Volley& volley) {
      volley.send(pair_.peer(), span_of(order));
      pair_.post(volley, order);
      volley.receive(pair_.peer(), span_of(got_all));
    });
  }
  void end() {
    ProbeOrder order;
    pair_.exchange([&](Volley& volley) { volley.send(pair_.peer(), span_of(order)); });
  }

 private:
  TimedPair& pair_;
};

void follow(TimedPair& pair) {
  while (true) {
    ProbeOrder order;
    pair.exchange([&](Volley& volley) { volley.receive(pair.peer(), span_of(order)); });
    if (order.messages == ProbeOrder::kEnd) return;
    pair.exchange([&](Volley& volley) { pair.post(volley, order); });
    std::byte got_all{};
    pair.exchange([&](Volley& volley) { volley.send(pair.peer(), span_of(got_all)); });
  }
}

/// The ranks of each host, in order; of the hosts in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> found;
  std::map<std::string, std::size_t> index;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    const auto [known, is_new] = index.try_emplace(hosts[rank], found.size());
    if (is_new) found.emplace_back();
    found[known->second].push_back(rank);
  }
  return found;
}

/// What one rank has found in one round; nothing where it led none.
struct Finding {
  int level = -1;
  LinkSteps steps;
};

struct RankTimes {
  std::array<Finding, kMostRounds> found;
  double took_s = 0;
  std::int64_t at = 0;
};

/// Of the rank's place: hosts whose number has this power of two in it follow those that have it not.
Finding find_in_round(const TimingParts& parts, const std::vector<std::vector<int>>& by_host, std::size_t apart,
                      double budget_s) {
  const int rank = parts.bootstrap.rank;
  const auto lanes = std::ranges::min(by_host, {}, &std::vector<int>::size).size();
  for (std::size_t host = 0; host < by_host.size(); ++host) {
    const auto place = static_cast<std::size_t>(std::ranges::find(by_host[host], rank) - by_host[host].begin());
    if (place == by_host[host].size()) continue;
    const bool leads = (host & apart) == 0;
    const std::size_t other = leads ? host + apart : host - apart;
    if (place >= lanes || other >= by_host.size()) return {};
    TimedPair pair(parts, by_host[other][place]);
    if (!leads) return follow(pair), Finding{};
    Leader leader(pair);
    const Finding found{parts.topology.parting_level(rank, pair.peer()), time_link(leader, budget_s)};
    leader.end();
    return found;
  }
  return {};
}

Link link_from(std::vector<LinkSteps> all) {
  const auto middle = [&](auto member) {
    std::ranges::sort(all, {}, member);
    return value_of(all[all.size() / 2].*member);
  };
  Link link;
  link.alpha_s = middle(&LinkSteps::alpha);
  link.gap_s = middle(&LinkSteps::gap);
  link.beta_s_per_byte = value_of(std::ranges::max(all, {}, &LinkSteps::beta).beta);
  link.source = LinkSource::timed;
  return link;
}

}  // namespace

TimedLinks time_links(const TimingParts& parts) {
  const auto by_host = ranks_by_host(parts.hosts);
  TimedLinks timed;
  timed.by_level.resize(parts.topology.levels() + std::size_t{1});
  if (by_host.size() < 2) return timed;
  std::vector<std::size_t> rounds{1};
  if (by_host.size() > 2) rounds.push_back(std::bit_floor(by_host.size() - 1));
  RankTimes mine;
  mine.at =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double budget_s = std::min(kBudget_s, kOfDeadline * parts.gathering.timeout_s);
  parts.bootstrap.barrier();
  const double begun = parts.now_s();
  for (std::size_t k = 0; k < rounds.size(); ++k)
    mine.found[k] = find_in_round(parts, by_host, rounds[k], budget_s / static_cast<double>(rounds.size()));
  mine.took_s = parts.now_s() - begun;
  std::vector<RankTimes> all(parts.bootstrap.size);
  parts.bootstrap.all_gather(&mine, all.data(), sizeof mine);
  timed.at = all[0].at;
  timed.took_s = std::ranges::max(all, {}, &RankTimes::took_s).took_s;
  for (std::size_t level = 0; level < timed.by_level.size(); ++level) {
    std::vector<LinkSteps> found;
    for (const RankTimes& seen : all)
      for (const Finding& finding : seen.found)
        if (finding.level == static_cast<int>(level)) found.push_back(finding.steps);
    if (!found.empty()) timed.by_level[level] = link_from(std::move(found));
  }
  return timed;
}

}  // namespace lanecast
