# SPDX-License-Identifier: Apache-2.0
"""Why a call takes the algorithm it takes: all candidates with their predicted times, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One algorithm with its best number of chunks."""

    algorithm: str
    chunks: int
    seconds: float  # predicted
    latency_s: float  # of one chunk: what does not depend on the bytes
    measured: bool  # from times of this algorithm on this machine, not from the speed of links

    def __str__(self) -> str:
        return self.algorithm + (f" in {self.chunks} chunks" if self.chunks > 1 else "")


@dataclass(frozen=True)
class Explanation:
    """What a call takes and why; candidates by predicted time, the fastest first."""

    collective: str
    full_bytes: int
    algorithm: str
    chunks: int
    candidates: tuple[Candidate, ...]
    measured_links: bool  # else their speed is assumed

    @property
    def reason(self) -> str:
        """One sentence."""
        best = self.candidates[0]
        if (self.algorithm, self.chunks) != (best.algorithm, best.chunks):
            return f"set by the caller or the environment; the model would take {best}"
        moving = max(0.0, best.seconds - best.latency_s)
        text = f"the shortest prediction: {_us(best.seconds)}, {_us(moving)} of it for moving bytes"
        if len(self.candidates) > 1:
            second = self.candidates[1]
            text += f"; then {second}, {second.seconds / best.seconds - 1:.0%} more"
        return f"{text} ({self._basis(best)})"

    def _basis(self, candidate: Candidate) -> str:
        if candidate.measured:
            return "measured on this machine"
        if self.measured_links:
            return "from measured links"
        return "from assumed links; `lanecast tune --quick` measures"

    def __str__(self) -> str:
        lines = [f"{self.collective} of {self.full_bytes} bytes: {Candidate(self.algorithm, self.chunks, 0, 0, False)}"]
        lines.append(f"  {self.reason}")
        width = max(len(str(c)) for c in self.candidates)
        lines += [
            f"  {c!s:<{width}}  {_us(c.seconds):>12}  {self._basis(c).partition(';')[0]}" for c in self.candidates
        ]
        return "\n".join(lines)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
