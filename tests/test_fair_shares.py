# SPDX-License-Identifier: Apache-2.0
"""Shares of links in the simulator: max-min fair after each change, on drawn links and messages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SEEDS = 30
MANY = 1000  # messages on four links: shares are held there
CROWD = 40000  # on thousands, each of which has some dozens: shares are held on all
REST = 4000  # of these, when most have gone

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "fair_shares.h"

using lanecast::simulator::FairShares;
using lanecast::simulator::Route;

/// Of a flow: its weight and rate, then its links.
static void print(const FairShares& shares, const std::vector<std::pair<unsigned, Route>>& flows) {
  for (const auto& [number, route] : flows) {
    std::printf("flow %.17g %.17g", 1 / route.latency_s, shares.rate_Bps(number));
    for (const int link : route.all()) std::printf(" %d", link);
    std::printf("\n");
  }
  std::printf("settled\n");
}

int main(int, char** words) {
  const int most = std::atoi(words[2]), rest = std::atoi(words[3]);
  const bool is_crowd = most > 10000;
  std::mt19937 draw(std::atoi(words[1]));
  const auto below = [&](unsigned end) { return static_cast<int>(draw() % end); };
  std::vector<double> capacities;
  for (int link = 0, count = is_crowd ? 2000 : most > 100 ? 4 : 2 + below(12); link < count; ++link) {
    capacities.push_back((1 + below(4)) * 2.5e10);
    std::printf("link %.17g\n", capacities.back());
  }
  FairShares shares(capacities);
  std::vector<std::pair<unsigned, Route>> flows;
  const int steps = is_crowd ? 400 : 40;  // until a crowd has spent its looks, and then a while
  for (int step = 0; step < steps; ++step) {
    for (int change = step == 0 ? most : (1 + below(4)) * (is_crowd ? 5 : 1); change > 0; --change) {
      if (!flows.empty() && step > 0 && below(2) == 0) {
        std::swap(flows[below(flows.size())], flows.back());
        shares.remove(flows.back().first);
        flows.pop_back();
        continue;
      }
      Route route;
      for (int link = below(capacities.size()), hops = 1 + below(4); hops > 0 && link < (int)capacities.size();
           link += 1 + below(3), --hops)
        route.pass(link, (1 + below(3)) * 1e-6);
      flows.emplace_back(shares.add(route), route);
    }
    shares.settle();
    if (most <= 100 || (step == steps - 1 && rest == 0)) print(shares, flows);
  }
  if (rest == 0) return 0;
  for (; (int)flows.size() > rest; flows.pop_back()) shares.remove(flows.back().first);
  shares.settle();
  print(shares, flows);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shares") / "program"
    command = ["g++", "-std=c++20", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'simulator'}", f"-I{ROOT / 'src'}",
               "-x", "c++", "-", str(ROOT / "simulator" / "fair_shares.cpp"), "-o", str(made)]  # fmt: skip
    subprocess.run(command, input=PROGRAM, text=True, check=True, timeout=240)
    return made


def _check(printed: str, tolerance: float) -> None:
    """No link carries too much. A message is as fast as its slowest link, or has a full link where none is faster for
    its weight: that is what max-min fair means.
    """
    links: list[float] = []
    flows: list[tuple[float, float, list[int]]] = []
    settled = 0
    for line in printed.splitlines():
        kind, *words = line.split()
        if kind == "link":
            links.append(float(words[0]))
        elif kind == "flow":
            flows.append((float(words[0]), float(words[1]), [int(word) for word in words[2:]]))
        else:
            used, level = [0.0] * len(links), [0.0] * len(links)
            for weight, rate, route in flows:
                for link in route:
                    used[link] += rate
                    level[link] = max(level[link], rate / weight)
            assert all(one <= all_of_it * (1 + tolerance) for one, all_of_it in zip(used, links, strict=True))
            full = {link for link, one in enumerate(used) if one > links[link] * (1 - tolerance)}
            for weight, rate, route in flows:
                is_narrow = any(link in full and rate / weight > level[link] * (1 - tolerance) for link in route)
                assert is_narrow or rate > min(links[link] for link in route) * (1 - tolerance)
            flows, settled = [], settled + 1
    assert settled > 0


def _printed(program: Path, seed: int, most: int, rest: int = 0) -> str:
    """Of all flows, or in the end of so many of them."""
    words = [str(word) for word in (program, seed, most, rest)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240)
    return ended.stdout


@pytest.mark.parametrize("seed", range(SEEDS))
def test_shares_are_max_min_fair(program: Path, seed: int) -> None:
    _check(_printed(program, seed, (1, 3, 7, 60)[seed % 4]), 1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [MANY, CROWD])
def test_shares_of_many_are_off_by_a_hundredth_at_most(program: Path, most: int, seed: int) -> None:
    _check(_printed(program, seed, most), 0.03)  # each of several links of a message may be off by one


@pytest.mark.parametrize("seed", range(3))
def test_shares_are_exact_when_a_crowd_has_gone(program: Path, seed: int) -> None:
    _check(_printed(program, seed, CROWD, REST), 1e-6)
