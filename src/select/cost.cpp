// SPDX-License-Identifier: Apache-2.0
#include "select/cost.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {
namespace {

template <class Row>
Cost cost_in(std::span<const Row> rows, std::string_view name, Kind kind, int ranks) {
  if (const Row* row = find(rows, name)) return row->cost(ranks);
  throw UsageError("algorithm '" + std::string(name) + "': no row of the registry does " + std::string(name_of(kind)) +
                   " by it");
}

/// Share of the full buffer that the busiest rank adds: what it receives, but an all-reduce adds in its first half
/// only, unless it has a form of its own.
double reduced(std::string_view name, const Cost& cost, Kind kind) {
  if (kind == Kind::reduce_scatter || kind == Kind::reduce) return cost.volume;
  if (kind != Kind::all_reduce) return 0;
  return find(all_reduce_rows(), name) ? cost.volume : cost.volume / 2;
}

const Link& link_of(const Load& load, const Models& models) {
  return models.links[std::max(load.level, 0)];  // of a flat call the outermost level, its slowest
}

constexpr double kSecondPass_s_per_byte = 1 / 5e9;  // of what was stored when it came, and is read again to be added

double seconds_of_adding(double reduced, const Load& load, const Models& models) {
  const double on_cores =
      models.reduce_s_per_byte + (link_of(load, models).traits.by_library ? kSecondPass_s_per_byte : 0);
  return static_cast<double>(load.bytes) * reduced *
         (load.on_gpus ? models.gpu->between_hosts.reduce_s_per_byte : on_cores);
}

Stage with_sends(Stage stage, const Cost& cost, const Load& load) {
  stage.sends = cost.pipelined ? cost.messages : std::max(cost.rounds, cost.messages);
  stage.sent_bytes = static_cast<double>(load.bytes) * cost.volume;
  return stage;
}

/// Of a flat call's messages, the share that receivers add: these come through their caches, however long. Others have
/// faster ways when they are long, and what goes to several ranks is copied once only where it is asked for.
double share_to_add(std::string_view name, const Load& load) {
  if (load.on_gpus || load.level != kAllRanks) return 0;
  if (load.kind == Kind::all_reduce) return load.ranks == 2 ? 0.5 : 0;
  if (load.kind == Kind::reduce) return find(broadcast_rows(), name)->scatters ? 0 : 1;
  return load.kind == Kind::reduce_scatter ? 1 : 0;
}

Stage with_asking(Stage stage, std::string_view name, const Load& load, const Link& link) {
  const double asked = stage.pipelined ? 0 : stage.sends * share_to_add(name, load);
  stage.asking_s = asked * static_cast<double>(link.traits.asking_bytes) * link.beta_s_per_byte;
  stage.asks_from = link.traits.asks_from;
  return stage;
}

double hidden_in_chunks(double reduced, const Load& load, const Models& models) {
  return link_of(load, models).traits.by_itself ? seconds_of_adding(reduced, load, models) : 0;
}

constexpr double kHeldBytes = 64 << 10;  // of each message

/// How many ranks at a time copy the same from one rank's memory; more were not measured, and 15 took some five times
/// as long.
double readers_of_one(int ranks) { return std::clamp(ranks - 1, 1, 3); }

/// What everyone gets from the root itself: one copy by the root, and one by each of the others, who go on meanwhile.
Cost with_one_copy(Cost cost, bool by_library, int ranks) {
  cost.volume = by_library ? std::max(1.0, (ranks - 1) / readers_of_one(ranks)) : 1;
  cost.even = 0.5;  // of the two copies that a message takes
  return cost;
}

/// What the root hands out where receivers copy: each its own, beside all others. By 8 and 16 ranks of a Xeon with a
/// core each, 16 and 64 MiB took 0.8 to 1.3 of the time that this says.
Cost with_own_copies(Cost cost, int ranks) {
  const int others = std::max(ranks - 1, 1);
  cost.volume /= others;
  cost.even *= others;
  return cost;
}

Stage by_link(Cost cost, double reduced, const Load& load, const Models& models) {
  const Link& link = link_of(load, models);
  const bool has_time = link.crowd <= 1;  // the cores that move its messages
  const bool once = cost.one_content && load.kind == Kind::broadcast && load.bytes >= link.traits.sends_once_from;
  if (once) cost = with_one_copy(cost, link.traits.by_library, load.ranks);
  const bool is_read = !link.traits.by_itself && !load.on_gpus &&
                       load.bytes / static_cast<std::size_t>(load.ranks) >= link.traits.read_from;
  const bool beside = is_read && cost.hands_out && load.kind == Kind::scatter;
  if (beside) cost = with_own_copies(cost, load.ranks);
  const double sent = static_cast<double>(load.bytes) * cost.volume;
  // Hosts and switches hold a short message that meets another one, and it waits for no more than that one's bytes.
  const bool is_steady = cost.steady || load.ranks <= 2;
  const double waits = is_steady ? 0 : std::max(0.0, sent - std::max(cost.rounds, cost.messages) * kHeldBytes);
  const double add_s = seconds_of_adding(reduced, load, models);
  // All-reduces send to everyone twice.
  const bool at_once = link.gap_s > 0 && load.ranks > 2 && !cost.pipelined && cost.messages > cost.rounds;
  const bool in_turn = link.traits.by_library && !load.on_gpus && !cost.pipelined && !beside;
  const double rounds = in_turn ? std::max(cost.rounds, cost.messages) : cost.rounds;
  return with_sends({.rounds = at_once ? cost.messages / (load.ranks - 1) : rounds,
                     .alpha_s = link.alpha_s,
                     .transfer_s = (sent + (link.unsteady - 1) * waits) * link.beta_s_per_byte + add_s,
                     .hidden_s = hidden_in_chunks(reduced, load, models),
                     .pipelined = cost.pipelined,
                     .load = link.crowd * cost.even,
                     .messages = cost.messages,
                     .filling = has_time ? filling_for(load.bytes, link.filling) : 1,
                     .gap_s = link.gap_s,
                     .at_once = at_once},
                    cost, load);
}

}  // namespace

double Stage::seconds(int chunks, double latency_share) const {
  // Cores send a chunk's messages one after the other, also those of one round.
  const bool spares = asking_s > 0 && asks(1) && !asks(chunks);
  const double spared_s = spares ? asking_s - (chunks - 1) * (sends - rounds) * alpha_s : 0;
  const double chunks_s = chunk_s * (chunks - 1) - spared_s;
  if (pipelined) {
    const double in_rounds = (filling * (rounds - 1) + chunks) * (alpha_s + transfer_s / chunks);
    return chunks_s + std::max(in_rounds, load * (chunks * messages * alpha_s + transfer_s));
  }
  const double further_messages = at_once ? chunks * sends - rounds : (chunks - 1) * sends;
  const double transferred_s = std::max(transfer_s - hidden_s * (chunks - 1) / chunks, further_messages * gap_s);
  return chunks_s + std::max(1.0, load) * (rounds * alpha_s * (1 + latency_share * (chunks - 1)) + transferred_s);
}

Cost cost_of(std::string_view name, Kind kind, int ranks) {
  switch (kind) {
    case Kind::all_reduce: {
      if (find(all_reduce_rows(), name)) return cost_in(all_reduce_rows(), name, kind, ranks);
      Cost both = cost_in(all_gather_rows(), name, kind, ranks);
      both.rounds *= 2;
      both.volume *= 2;
      both.messages *= 2;
      return both;
    }
    case Kind::broadcast:
    case Kind::reduce:
      return cost_in(broadcast_rows(), name, kind, ranks);
    case Kind::gather:
    case Kind::scatter:
      return cost_in(scatter_rows(), name, kind, ranks);
    case Kind::all_to_all:
      return cost_in(all_to_all_rows(), name, kind, ranks);
    default:
      return cost_in(all_gather_rows(), name, kind, ranks);
  }
}

Stage flat(std::string_view name, const Load& load, const Models& models) {
  const Cost cost = cost_of(name, load.kind, load.ranks);
  const double reduces = reduced(name, cost, load.kind);
  const Fit* fit = models.find(load.kind, name, load.level, load.bytes);
  const Link& link = link_of(load, models);
  if (fit == nullptr) return with_asking(by_link(cost, reduces, load, models), name, load, link);
  const double transfer_s = cost.volume * static_cast<double>(load.bytes) * fit->beta_s_per_byte;
  const Stage stage{.rounds = cost.rounds,
                    .alpha_s = fit->alpha_s,
                    .transfer_s = transfer_s,
                    .hidden_s = std::min(transfer_s, hidden_in_chunks(reduces, load, models)),
                    .pipelined = cost.pipelined,
                    .measured = true,
                    .filling = filling_for(load.bytes, link.filling)};
  return with_asking(with_sends(stage, cost, load), name, load, link);
}

Stage gather(std::string_view name, const Load& load, const Models& models) {
  const BroadcastRow* row = find(broadcast_rows(), name);
  const Cost cost = row ? row->gather_cost(load.ranks) : Cost{};
  return by_link(cost, load.kind == Kind::reduce ? cost.volume : 0, load, models);
}

Stage stripes(const Load& load, const Models& models) {
  const bool by_root = hands_out_itself(load.ranks, load.level);
  return by_link(cost_in(scatter_rows(), by_root ? "direct" : "binomial", Kind::scatter, load.ranks), 0, load, models);
}

std::vector<int> largest_groups(const Topology& topology) {
  const auto levels = topology.group_sizes();
  std::vector<int> largest;
  largest.reserve(levels.size());
  for (const auto& sizes : levels) largest.push_back(static_cast<int>(*std::max_element(sizes.begin(), sizes.end())));
  return largest;
}

}  // namespace lanecast
