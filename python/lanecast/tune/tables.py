# SPDX-License-Identifier: Apache-2.0
"""A profile as tables: links, fits, where algorithms cross, and what calls take by it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations, groupby

from rich.table import Table

from lanecast import _core
from lanecast.bench import tables
from lanecast.bench.options import ranks_of
from lanecast.profiles.profile import Profile
from lanecast.tune.fit import crossover
from lanecast.tune.gain import Gain
from lanecast.tune.tuner import curves
from lanecast.wording import counted

_SIZES = [1 << k for k in range(16, 27, 2)]
_SMALLEST, _LARGEST = 1 << 10, 1 << 28  # between which crossings are looked for
_LEFT = ("collective", "algorithm", "algorithms", "next best", "level", "transport", "among", "by default", "tuned",
         "best there is")  # fmt: skip
_FITS = "T = rounds x alpha + volume x bytes / rate; from: size of the full buffer. error: of the fit, relative"


def _rate(beta_s_per_byte: float) -> str:
    return "-" if beta_s_per_byte == 0 else tables.number(1e-9 / beta_s_per_byte)


def show(profile: Profile) -> None:
    """Print everything that a profile says."""
    shape, console = profile.shape, tables.console()
    console.print(f"{shape.topology} ranks on {counted(shape.hosts, 'host')} of {counted(shape.cores, 'core')}, "
                  f"{shape.cpu}; measured {profile.measured.get('when', 'at a time unknown')}")  # fmt: skip
    for table in (_links(profile), _fits(profile), _crossings(profile), _choices(profile)):
        if table.rows:
            console.print()
            console.print(table)


def show_gains(found: Sequence[Gain]) -> None:
    """Print what a profile is worth, with geometric means over the sizes of each collective."""
    headings = ("collective", "by default", "tuned", "best there is", "size", "default (us)", "tuned (us)", "best (us)",
                "x default", "of best")  # fmt: skip
    table = tables.headed("what tuning gains, medians of rounds that alternate", headings, _LEFT)
    for collective, cases in groupby(found, key=lambda gain: gain.collective):
        mine = list(cases)
        for gain in mine:
            timed = (gain.default, gain.tuned, gain.best)
            table.add_row(collective, *(_way(way.algorithm, way.chunks) for way in timed), tables.size_text(gain.size),
                          *(tables.number(way.seconds * 1e6) for way in timed), f"{gain.faster:.2f}",
                          f"{gain.of_best:.2f}")  # fmt: skip
        means = [
            statistics.geometric_mean(values) for values in zip(*((g.faster, g.of_best) for g in mine), strict=True)
        ]
        table.add_row(collective, "", "", "geometric mean", "", "", "", "", *(f"{mean:.2f}" for mean in means))
    if found:
        tables.console().print()
        tables.console().print(table)


def _way(algorithm: str, chunks: int) -> str:
    return algorithm + (f" /{chunks}" if chunks > 1 else "")


def _links(profile: Profile) -> Table:
    table = tables.headed("links", ("level", "transport", "alpha (us)", "GB/s", "error"), _LEFT)
    for link in profile.links:
        table.add_row(link.level, link.transport, tables.number(link.alpha_s * 1e6), _rate(link.beta_s_per_byte),
                      f"{link.error:.0%}")  # fmt: skip
    return table


def _fits(profile: Profile) -> Table:
    headings = ("collective", "algorithm", "among", "from", "alpha (us)", "GB/s", "error")
    table = tables.headed(_FITS, headings, _LEFT)
    for fit in profile.fits:
        among = "all ranks" if fit.level < 0 else f"level {profile.links[fit.level].level}"
        table.add_row(fit.collective, fit.algorithm, among, tables.size_text(fit.from_bytes),
                      tables.number(fit.alpha_s * 1e6), _rate(fit.beta_s_per_byte), f"{fit.error:.0%}")  # fmt: skip
    for overlap in profile.overlaps:
        table.add_row(overlap.collective, f"hierarchical: {overlap.hidden:.0%} of the faster levels hidden by chunks",
                      "", "", "", "", f"{overlap.error:.0%}")  # fmt: skip
    return table


def _crossings(profile: Profile) -> Table:
    headings = ("collective", "algorithms", "at", "between")
    table = tables.headed("sizes at which two algorithms cross, among all ranks", headings, _LEFT)
    for collective in _core.KINDS:
        found = curves(profile, collective)
        for name in _pipelines(profile, collective):
            found.pop(name, None)  # chunks bend its line
        for one, other in combinations(found, 2):
            meets = crossover(found[one], found[other], _SMALLEST, _LARGEST)
            if meets is not None:
                between = f"{tables.size_text(round(meets.low_bytes))} - {tables.size_text(round(meets.high_bytes))}"
                table.add_row(collective, f"{one}, {other}", tables.size_text(round(meets.at_bytes)), between)
    return table


def _pipelines(profile: Profile, collective: str) -> list[str]:
    """Algorithms without levels that go in chunks nevertheless."""
    topology = _topology(profile)
    known = _core.candidates(collective, _LARGEST, topology, profile.models()) if topology is not None else []
    return [each["algorithm"] for each in known if each["chunks"] > 1 and "(" not in each["algorithm"]]


def _choices(profile: Profile) -> Table:
    headings = ("collective", "algorithm", "next best", "size", "time (us)", "more")
    table = tables.headed("calls take", headings, _LEFT)
    topology, known = _topology(profile), profile.models()
    measured = {fit.collective for fit in profile.fits}
    if topology is None:
        return table
    for collective in (kind for kind in _core.KINDS if kind in measured):
        for size in _SIZES:
            best, *others = _core.candidates(collective, size, topology, known)
            second = others[0] if others else best
            more = f"{second['seconds'] / best['seconds'] - 1:.0%}"
            times = (tables.size_text(size), tables.number(best["seconds"] * 1e6), more)
            table.add_row(collective, _way(best["algorithm"], best["chunks"]), second["algorithm"], *times)
    return table


def _topology(profile: Profile) -> _core.Topology | None:
    """As far as its text describes it, which that of some uneven ones does not."""
    try:
        return _core.Topology.parse(profile.shape.topology, ranks_of(profile.shape.topology))
    except _core.UsageError:
        return None
