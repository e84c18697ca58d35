# SPDX-License-Identifier: Apache-2.0
"""Cases with a known border, and models made of them, for the tests."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import lanecast
from lanecast.learn.cases import Case
from lanecast.learn.training import Fitted, train
from lanecast.profiles.model import FEATURES, Model, Trained
from lanecast.profiles.scope import SIMULATED, Scope

FLAT = Scope("a machine", SIMULATED, "", 0, "", lanecast.__version__)


def cases(names: Sequence[str]) -> list[Case]:
    """Each name is the fastest in a diagonal band of the map; the others lose the more, the farther away theirs is."""
    found = []
    for ranks in (2, 3, 4, 6, 8, 12):
        for k in range(16):
            case = Case(ranks, ranks, 1 << (10 + k), {}, dict.fromkeys(names, 1.0))
            place = (sum(case.features[:2]) - 11) / 18 * len(names)
            seconds = {name: 1e-3 * (1 + abs(place - at - 0.5)) for at, name in enumerate(names)}
            found.append(replace(case, seconds=seconds))
    return found


@functools.cache
def fitted(names: tuple[str, ...]) -> Fitted:
    """Trained on these, once for all tests."""
    return train("all_gather", cases(names))


def constant(collective: str, algorithms: Sequence[str], fastest: int = 0) -> Trained:
    """Prefers one of its classes everywhere, and then the first that is valid."""
    classes = len(algorithms)
    pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
    return Trained(
        collective, list(FEATURES), [1, 1 << 40], [1, 4096], list(algorithms), [[1, 4096]] * classes, [0] * classes,
        [0.0] * len(FEATURES), [1.0] * len(FEATURES), 1.0, [], [[] for _ in range(classes - 1)],
        [-1.0 if b == fastest else 1.0 for _, b in pairs],
    )  # fmt: skip


def model(*trained: Trained, node: str = "") -> Model:
    return Model(replace(FLAT, node=node), list(trained), {"of": "a test"})
