// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/making.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/user_cache.h"
#include "capi/preload/beside.h"
#include "capi/preload/exchange.h"
#include "capi/preload/telling.h"
#include "device/gpu/beside_captures.h"
#include "runtime/wires/surroundings.h"

namespace lanecast::preload {
namespace {

constexpr std::size_t kMostRanks = 32;       // GPUs of a host
constexpr int kMostRanksBetweenHosts = 256;  // their exchanges go through memory for so many cards

/// NCCL waits for ever, and programs for NCCL end a wait by themselves: a rank may write its state for an hour.
constexpr double kPatience_s = 24 * 3600;

/// What a rank shows of itself.
struct Card {
  int version = 2;  // of this struct
  int process = 0;
  int between_hosts = 0;  // 1: the program wants Lanecast there, too
  std::array<char, 384> host{};
  std::array<char, 192> refusal{};  // empty: it takes Lanecast
};

std::string_view wanted() {
  const char* const value = std::getenv("LANECAST_NCCL");
  return value == nullptr || *value == '\0' ? "1" : value;
}

/// Nobody has timed NCCL there beside Lanecast, so by itself it keeps such communicators.
bool wanted_between_hosts() { return wanted() == "hosts"; }

std::string switched_off() {
  if (wanted() == "1" || wanted_between_hosts()) return {};
  if (wanted() == "0") return "LANECAST_NCCL=0";
  return "LANECAST_NCCL=" + std::string(wanted()) + " is none of 0, 1 and hosts";
}

Card own_card(const std::string& refusal) {
  Card card;
  card.process = getpid();
  card.between_hosts = wanted_between_hosts() ? 1 : 0;
  host_identity().copy(card.host.data(), card.host.size() - 1);
  refusal.copy(card.refusal.data(), card.refusal.size() - 1);
  return card;
}

/// Why Lanecast is out of the question for so many ranks, which all of them know; empty: it is not.
std::string refusal_of_size(NcclComm comm) {
  int size = 0;
  real_nccl().CommCount(comm, &size);
  if (size < 2) return "it has one rank";
  return size > kMostRanksBetweenHosts ? "it has " + std::to_string(size) + " ranks" : "";
}

/// Empty, or why its ranks' being on several hosts leaves it to NCCL.
std::string refusal_of_hosts(const std::vector<Card>& cards) {
  for (std::size_t r = 1; r < cards.size(); ++r) {
    if (cards[r].host == cards[0].host) continue;
    for (std::size_t q = 0; q < cards.size(); ++q)
      if (cards[q].between_hosts == 0)
        return "its ranks are on several hosts, such as " + std::to_string(r) + " on another than rank 0, and rank " +
               std::to_string(q) + " has no LANECAST_NCCL=hosts";
  }
  return {};
}

/// The same on all ranks; empty: Lanecast can take them.
std::string refusal_among(const std::vector<Card>& cards) {
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (cards[r].version != cards[0].version) return "the ranks have different versions of Lanecast";
    if (cards[r].refusal[0] != '\0') return "rank " + std::to_string(r) + ": " + cards[r].refusal.data();
  }
  if (const std::string refusal = refusal_of_hosts(cards); !refusal.empty()) return refusal;
  const bool on_one_host = std::ranges::all_of(cards, [&](const Card& card) { return card.host == cards[0].host; });
  if (on_one_host && cards.size() > kMostRanks) return "it has " + std::to_string(cards.size()) + " ranks on one host";
  for (std::size_t r = 1; r < cards.size(); ++r)
    for (std::size_t q = 0; q < r; ++q)
      if (cards[r].process == cards[q].process && cards[r].host == cards[q].host)
        return "ranks " + std::to_string(q) + " and " + std::to_string(r) + " are in one process";
  return {};
}

void remember(NcclComm comm, std::shared_ptr<BesideNccl> beside) {
  beside->info = wants_info();
  if (beside->info) {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "%p", static_cast<void*>(comm));
    const std::string whose = "communicator " + std::string(name.data()) + ", rank " + std::to_string(beside->rank) +
                              " of " + std::to_string(beside->size) + ": ";
    tell_info(whose + (beside->ours ? "collectives and messages go by Lanecast, what it does not take by NCCL"
                                    : "all goes by NCCL: " + beside->why_not));
  }
  AllBeside::of_process().put(comm, std::move(beside));
}

struct MakingBeside {
  Session session;
  std::string failure;

  static int all_gather(const void* in, void* out, std::size_t bytes, void* ctx) {
    auto& making = *static_cast<MakingBeside*>(ctx);
    try {
      if (making.session.step(in, out, bytes)) return 0;
    } catch (const std::exception& error) {
      making.failure = error.what();
    }
    return 1;
  }
};

/// Where PyPI's packages of NVIDIA lie side by side, NVRTC is beside NCCL.
std::string library_folders(const RealNccl& nccl) {
  const std::filesystem::path own = std::filesystem::path(nccl.path).parent_path();
  const std::filesystem::path all = own.parent_path().parent_path();
  return own.string() + ":" + (all / "cuda_nvrtc/lib").string() + ":" + (all / "cu13/lib").string();
}

/// Collective. Null where it has failed on a rank, which `failure` names.
lanecastComm_t made_by_all(NcclExchange& exchange, const RealNccl& nccl, std::string& failure) {
  const std::string cache = user_cache("kernels");
  const std::string folders = library_folders(nccl);
  lanecastError_t error{};
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.processes_per_gpu = 1;  // helpers are for the host's memory
  config.kernel_cache = cache.c_str();
  config.gpu_libraries = folders.c_str();  // algorithm "nccl" is the real one, not this library in its place
  if (const char* given = std::getenv("LANECAST_TIMEOUT"); given == nullptr || *given == '\0')
    config.timeout_s = kPatience_s;
  MakingBeside making{Session(exchange), {}};
  lanecastComm_t ours = nullptr;
  if (lanecastCommInitAllGather(&ours, exchange.rank(), exchange.size(), &MakingBeside::all_gather, &making, &config) !=
      lanecastSuccess)
    failure = error.text;
  else if (lanecastCommSetDevice(ours, exchange.ordinal()) != lanecastSuccess)
    failure = lanecastGetLastError(ours);
  if (!making.failure.empty()) failure = making.failure;
  if (making.session.all_are_well(failure)) return ours;
  lanecastCommDestroy(ours);
  return nullptr;
}

}  // namespace

bool blocks(const void* config) {
  if (config == nullptr) return true;
  int blocking = 1;
  // Behind size, magic and version, since 2.14.
  std::memcpy(&blocking, static_cast<const char*>(config) + offsetof(gpu::NcclConfig, blocking), sizeof blocking);
  return blocking != 0;
}

void leave_to_nccl(NcclComm comm, const std::string& why) {
  auto beside = std::make_shared<BesideNccl>();
  const RealNccl& nccl = real_nccl();
  nccl.CommUserRank(comm, &beside->rank);
  nccl.CommCount(comm, &beside->size);
  beside->why_not = why;
  remember(comm, std::move(beside));
}

void make_beside(NcclComm comm) {
  const RealNccl& nccl = real_nccl();
  if (const std::string why = refusal_of_size(comm); !why.empty()) return leave_to_nccl(comm, why);
  try {
    auto beside = std::make_shared<BesideNccl>();
    beside->driver = gpu::Driver::open();
    const gpu::BesideCaptures beside_captures(*beside->driver);
    NcclExchange exchange(nccl, comm);
    beside->rank = exchange.rank();
    beside->size = exchange.size();
    beside->ordinal = exchange.ordinal();
    std::vector<Card> cards(static_cast<std::size_t>(exchange.size()));
    const Card mine = own_card(nccl.too_old.empty() ? switched_off() : nccl.too_old);
    exchange.all_gather(&mine, cards.data(), sizeof mine);
    beside->why_not = refusal_among(cards);
    for (const Card& card : cards) beside->is_here.push_back(card.host == mine.host);
    if (beside->why_not.empty()) {
      beside->ours = made_by_all(exchange, nccl, beside->why_not);
      if (beside->ours == nullptr && beside->rank == 0)
        tell_always("the program goes on by NCCL alone: " + beside->why_not);
    }
    remember(comm, std::move(beside));
  } catch (const std::exception& error) {
    tell_always(std::string("this rank goes on by NCCL alone: ") + error.what());
    leave_to_nccl(comm, error.what());
  }
}

void refuse_together(const std::vector<NcclComm>& comms, const std::string& why) {
  const RealNccl& nccl = real_nccl();
  try {
    const gpu::BesideCaptures beside_captures(*gpu::Driver::open());
    const Card mine = own_card(why);
    std::vector<std::unique_ptr<NcclExchange>> exchanges;
    exchanges.reserve(comms.size());
    for (NcclComm comm : comms)
      if (refusal_of_size(comm).empty()) exchanges.push_back(std::make_unique<NcclExchange>(nccl, comm));
    for (const auto& exchange : exchanges) exchange->show(&mine, sizeof mine);
    nccl.GroupStart();
    for (const auto& exchange : exchanges) exchange->gather(sizeof mine);
    nccl.GroupEnd();
    for (const auto& exchange : exchanges) {
      std::vector<Card> cards(static_cast<std::size_t>(exchange->size()));
      exchange->collect(reinterpret_cast<std::byte*>(cards.data()), sizeof mine, sizeof mine);
    }
  } catch (const std::exception& error) {
    tell_always(std::string("the ranks could not tell each other that NCCL takes all calls: ") + error.what());
  }
  for (NcclComm comm : comms) leave_to_nccl(comm, why);
}

}  // namespace lanecast::preload
