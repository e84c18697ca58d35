# SPDX-License-Identifier: Apache-2.0
"""Why a call takes the algorithm it takes: all candidates with their predicted times, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    basis: str = ""  # of the time, where it is neither


@dataclass(frozen=True)
class Explanation(Way):
    """What a call takes and why, as the core explains it; candidates by predicted time, the fastest first.

    decided_by: "pinned" by the caller, the environment or a file, "learned" from times of whole calls, or "cost model".
    """

    collective: str
    full_bytes: int
    decided_by: str
    candidates: tuple[Candidate, ...]
    left_out: dict[str, str]  # on GPUs of one host: what else there is, and why it does not take the call
    reason: str  # one sentence
    text: str

    def __str__(self) -> str:
        return self.text


def explained(found: dict[str, Any]) -> Explanation:
    """What lanecast._core.explain says."""
    candidates = tuple(Candidate(**each) for each in found["candidates"])
    return Explanation(**{**found, "candidates": candidates})
