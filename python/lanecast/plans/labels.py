# SPDX-License-Identifier: Apache-2.0
"""Short names for pieces: the number of the part, or of the slice where parts are cut."""

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from lanecast.plans.flow import Flow, Piece

MOST_SLICES = 1024
LONGEST = 12


class PieceLabels:
    """Numbers the slices that all cuts of all parts have in common.

    One vector: "5" is slice 5, "0-3" are four. Several parts: "5" is the whole part 5, "5.1" its slice 1.
    """

    def __init__(self, flow: Flow) -> None:
        ends = (end for t in flow.transfers for _, lo, hi in t.pieces for end in (lo, hi))
        self.slices = lcm(*{end.denominator for end in ends})
        self._parts = flow.parts

    @property
    def meaning(self) -> str:
        """For the legend."""
        if self.slices > MOST_SLICES:
            return "parts, [from, to)"
        if self._parts == 1:
            return f"slices of the vector, cut in {self.slices}" if self.slices > 1 else "the vector"
        return f"parts; 5.1 is slice 1 of {self.slices} of part 5" if self.slices > 1 else "parts"

    def of(self, pieces: Iterable[Piece]) -> str:
        if self.slices > MOST_SLICES:
            return ",".join(f"{part}[{lo},{hi})" for part, lo, hi in pieces)
        if self._parts == 1:
            return _ranges(k for _, lo, hi in pieces for k in self._covered(lo, hi))
        whole = [part for part, lo, hi in pieces if hi - lo == 1]
        cut = [f"{part}.{_ranges(self._covered(lo, hi))}" for part, lo, hi in pieces if hi - lo != 1]
        return ",".join(([_ranges(whole)] if whole else []) + cut)

    def short(self, pieces: Iterable[Piece]) -> str:
        """Where there is little room: the first few names."""
        text = self.of(pieces)
        return text if len(text) <= LONGEST else text[: text.rindex(",", 0, LONGEST) + 1] + "…"

    def _covered(self, lo: Fraction, hi: Fraction) -> range:
        return range(int(lo * self.slices), int(hi * self.slices))


def _ranges(numbers: Iterable[int]) -> str:
    """0,1,2,5 → 0-2,5"""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
