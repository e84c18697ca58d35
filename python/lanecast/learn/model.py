# SPDX-License-Identifier: Apache-2.0
"""What was learned, as plain JSON: a support vector machine for each collective, and what it holds for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lanecast import _core, marked_json
from lanecast.fields import FieldError, Signed
from lanecast.learn.scope import Scope
from lanecast.marked_json import Format

FORMAT = Format("model", "lanecast_model", 2, "train it again with `lanecast learn train`")
_MOST_RANKS = 2**31 - 1
_HEAD = 64  # characters in which the mark stands
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
    mean: list[Signed]
    scale: list[float]
    gamma: float
    vectors: list[list[Signed]]
    weights: list[list[Signed]]
    intercepts: list[Signed]

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
        return _core.Learned(self.collective, (least_b, most_b), (least_r, most_r), self.algorithms, self.timed_on, svm)


@dataclass(frozen=True)
class Model:
    """One file. `about` says from what and how well it learned; it is for people and decides nothing."""

    scope: Scope
    collectives: list[Trained]
    about: dict[str, str] = field(default_factory=dict)

    def learned(self) -> list[_core.Learned]:
        return [trained.learned() for trained in self.collectives]

    def check(self) -> None:
        """Raise FieldError for what types alone do not say."""
        self.scope.check()
        if not self.collectives:
            raise FieldError("collectives", "none")
        seen: set[str] = set()
        for at, trained in enumerate(self.collectives):
            path, name = f"collectives[{at}]", trained.collective
            if name not in _core.KINDS or name in seen:
                raise FieldError(f"{path}.collective", f"{name!r}; known, once each: {', '.join(_core.KINDS)}")
            seen.add(name)
            _check_trained(trained, path, self.scope)


def save(model: Model, path: Path) -> None:
    """Write it whole or not at all. Makes the folder."""
    marked_json.save(FORMAT, model, path)


def load(path: Path) -> Model:
    """Read a model. Raises UsageError that names the file and the field for whatever is wrong with it."""
    model: Model = marked_json.load(FORMAT, Model, path)
    return model


def file_name(scope: Scope) -> str:
    """Name in a folder of models: readable, and different for every scope."""
    digest = hashlib.sha256(json.dumps(asdict(scope), sort_keys=True).encode()).hexdigest()[:8]
    carried = re.sub("[^0-9a-z]+", "+", scope.transports or scope.origin)
    return f"model-{scope.node or 'flat'}-{carried}-{digest}.json"


def shipped() -> dict[str, Path]:
    """Models that come with Lanecast, by the name of the described machine; learned from simulations."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "shipped").glob("*.json"))}


def is_model(path: Path) -> bool:
    """Does this file say that it is one? What it says apart from that is for load() to judge."""
    try:
        return f'"{FORMAT.mark}"' in path.read_text(errors="replace")[:_HEAD]
    except OSError:
        return False


def _check_trained(trained: Trained, path: str, scope: Scope) -> None:
    if trained.features != list(FEATURES):
        raise FieldError(f"{path}.features", f"{trained.features}; this Lanecast has {list(FEATURES)}")
    known = _known_algorithms(trained.collective, scope)
    for number, algorithm in enumerate(trained.algorithms):
        if algorithm not in known:
            raise FieldError(f"{path}.algorithms[{number}]", f"{algorithm!r} is none of this Lanecast's on {scope}")
    for name, found, expected in _lengths(trained):
        if found != expected:
            raise FieldError(f"{path}.{name}", f"{found} entries, expected {expected}")
    spans = [("bytes", trained.bytes, 2**48), ("ranks", trained.ranks, _MOST_RANKS)]
    spans += [(f"timed_on[{number}]", span, _MOST_RANKS) for number, span in enumerate(trained.timed_on)]
    for name, (least, largest), most in spans:
        if not 1 <= least <= largest <= most:
            raise FieldError(f"{path}.{name}", f"from {least} to {largest}, expected within 1 to {most}")
    try:
        trained.learned()
    except (_core.UsageError, TypeError) as error:  # TypeError: a count of more than 32 bits
        raise FieldError(path, str(error).partition("\n")[0]) from None


def _lengths(trained: Trained) -> Iterator[tuple[str, int, int]]:
    """(field, how many entries it has, how many it should have)."""
    classes = len(trained.algorithms)
    for name, length in (("bytes", 2), ("ranks", 2), ("mean", len(FEATURES)), ("scale", len(FEATURES))):
        yield name, len(getattr(trained, name)), length
    yield "support", len(trained.support), classes
    yield "timed_on", len(trained.timed_on), classes
    for number, span in enumerate(trained.timed_on):
        yield f"timed_on[{number}]", len(span), 2
    yield "weights", len(trained.weights), max(0, classes - 1)
    for number, row in enumerate(trained.weights):
        yield f"weights[{number}]", len(row), len(trained.vectors)
    for number, vector in enumerate(trained.vectors):
        yield f"vectors[{number}]", len(vector), len(FEATURES)


def _known_algorithms(collective: str, scope: Scope) -> set[str]:
    """Names that some job of this scope can take: several nodes, or one, whose levels are fewer."""
    shapes = [_core.Topology(2)]
    shapes += [_core.Topology.parse("x".join(["2"] * (k + 1)), 2 ** (k + 1)) for k in range(1, scope.levels + 1)]
    return {name for shape in shapes for name in _core.algorithms_for(collective, shape)}
