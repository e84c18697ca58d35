# SPDX-License-Identifier: Apache-2.0
"""What was learned, as plain JSON: a support vector machine for each collective, and what it holds for."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lanecast import _core, marked_json
from lanecast.marked_json import Format
from lanecast.profiles.scope import Scope

FORMAT = Format("model", "lanecast_model", 2, "train it again with `lanecast learn train`")
# "half": sums of 16-bit floats; "captured": by a graph; "symmetric": buffers in symmetric memory; "copy_engine": where
# these can be taken; "few_ctas": by at most half of a kernel's multiprocessors, as torch's groups do.
CALLS = ("half", "captured", "symmetric", "copy_engine", "few_ctas")
FEATURES = ("log2_bytes", "log2_ranks", "nodes_are_power_of_two")  # those of _core.features_of()


@dataclass(frozen=True)
class Trained:
    """Of one collective; see src/select/svm.h. vectors are standardised; weights: a row for each class but one."""

    collective: str
    features: list[str]
    bytes: list[int]  # the smallest and the largest that it was trained on
    ranks: list[int]
    algorithms: list[str]  # the classes
    timed_on: list[list[int]]  # of each class the fewest and the most ranks: elsewhere it is not chosen
    support: list[int]  # vectors of each class
    mean: list[float]
    scale: list[float]
    gamma: float
    vectors: list[list[float]]
    weights: list[list[float]]
    intercepts: list[float]
    # Of each class (ranks, bytes, seconds), by ranks, then bytes; none where they say nothing of calls: simulated ones.
    times: list[list[list[float]]] = field(default_factory=list)
    # Of a machine for calls among the GPUs of a host, which ones: some of CALLS. Else it holds for all.
    calls: list[str] = field(default_factory=list)

    def learned(self) -> _core.Learned:
        """The same for the core. Raises UsageError where the lists do not fit together."""
        svm = _core.Svm(
            (self.mean, self.scale),
            self.gamma,
            self.support,
            self.vectors,
            [weight for row in self.weights for weight in row],
            self.intercepts,
        )
        (least_b, most_b), (least_r, most_r) = self.bytes, self.ranks
        times = [[(int(ranks), int(size), seconds) for ranks, size, seconds in calls] for calls in self.times]
        return _core.Learned(
            self.collective, (least_b, most_b), (least_r, most_r), self.algorithms, self.timed_on, svm, times
        )


@dataclass(frozen=True)
class Model:
    """One file. `about` says from what and how well it learned; it is for people and decides nothing."""

    scope: Scope
    collectives: list[Trained]
    about: dict[str, str] = field(default_factory=dict)

    def learned(self) -> list[_core.Learned]:
        return [trained.learned() for trained in self.collectives]


def save(model: Model, path: Path) -> None:
    """Write it whole or not at all. Makes the folder."""
    marked_json.save(FORMAT, model, path)


def load(path: Path) -> Model:
    """Read a model. Raises UsageError that names the file and the field for whatever is wrong with it."""
    found = marked_json.fields(FORMAT, path, lambda text: _core.read_profile(text, is_model=True))
    return Model(Scope(**found.pop("scope")), [Trained(**each) for each in found.pop("collectives")], **found)


def file_name(scope: Scope) -> str:
    """Name in a folder of models: readable, and different for every scope."""
    digest = hashlib.sha256(json.dumps(asdict(scope), sort_keys=True).encode()).hexdigest()[:8]
    if scope.gpu:
        kind = re.sub("[^0-9a-z]+", "-", scope.gpu.lower()).strip("-")
        return f"gpu-model-{'host' if scope.one_host else scope.node or 'flat'}-{kind}-{digest}.json"
    carried = re.sub("[^0-9a-z]+", "+", scope.transports or scope.origin)
    return f"model-{scope.node or 'flat'}-{carried}-{digest}.json"


def shipped() -> dict[str, Path]:
    """Models that come with Lanecast, by the name of the described machine; learned from simulations."""
    return {path.stem: path for path in sorted((Path(__file__).parent.parent / "learn" / "shipped").glob("*.json"))}
