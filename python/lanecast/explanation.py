# SPDX-License-Identifier: Apache-2.0
"""Why a call takes the algorithm it takes: all candidates with their predicted times, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

MEASURED_LINKS = "from measured links"
ASSUMED_LINKS = "from assumed links; `lanecast tune --quick` measures"


@dataclass(frozen=True)
class Way:
    """How a call may run."""

    algorithm: str
    chunks: int

    def __str__(self) -> str:
        return self.algorithm + (f" in {self.chunks} chunks" if self.chunks > 1 else "")


@dataclass(frozen=True)
class Candidate(Way):
    """One algorithm with its best number of chunks."""

    seconds: float  # predicted
    latency_s: float  # of one chunk: what does not depend on the bytes
    measured: bool  # from times of this algorithm on this machine, not from the speed of links


@dataclass(frozen=True)
class Chosen(Way):
    """What a call takes; decided_by: "pinned", "learned" or "cost model"."""

    decided_by: str


@dataclass(frozen=True)
class Explanation:
    """What a call takes and why; candidates by predicted time, the fastest first."""

    collective: str
    full_bytes: int
    chosen: Chosen
    candidates: tuple[Candidate, ...]
    links: str  # what is known of them, where the algorithm has not been measured: MEASURED_LINKS, ASSUMED_LINKS, …

    @property
    def algorithm(self) -> str:
        return self.chosen.algorithm

    @property
    def chunks(self) -> int:
        return self.chosen.chunks

    @property
    def decided_by(self) -> str:
        """ "pinned" by the caller or the environment, "learned" from times of whole calls, or "cost model"."""
        return self.chosen.decided_by

    @property
    def reason(self) -> str:
        """One sentence."""
        best = self.candidates[0]
        if self.decided_by == "learned":
            return f"learned from times of whole calls; {self._beside(best)}"
        if self.decided_by == "pinned" or (self.algorithm, self.chunks) != (best.algorithm, best.chunks):
            return f"set by the caller or the environment; the model would take {best}"
        moving = max(0.0, best.seconds - best.latency_s)
        text = f"the shortest prediction: {_us(best.seconds)}, {_us(moving)} of it for moving bytes"
        if len(self.candidates) > 1:
            second = self.candidates[1]
            text += f"; then {second}, {second.seconds / best.seconds - 1:.0%} more"
        return f"{text} ({self._basis(best)})"

    def _beside(self, best: Candidate) -> str:
        """What the cost model says to what was learned."""
        if best.algorithm == self.algorithm:
            return f"the cost model agrees and predicts {_us(best.seconds)}"
        own = [f", and {_us(c.seconds)} for this" for c in self.candidates if c.algorithm == self.algorithm]
        return f"the cost model would take {best}, for which it predicts {_us(best.seconds)}{''.join(own)}"

    def _basis(self, candidate: Candidate) -> str:
        return "measured on this machine" if candidate.measured else self.links

    def __str__(self) -> str:
        lines = [f"{self.collective} of {self.full_bytes} bytes: {self.chosen}", f"  {self.reason}"]
        width = max(len(str(c)) for c in self.candidates)
        lines += [
            f"  {c!s:<{width}}  {_us(c.seconds):>12}  {self._basis(c).partition(';')[0]}" for c in self.candidates
        ]
        return "\n".join(lines)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
