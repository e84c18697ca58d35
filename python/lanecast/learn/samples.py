# SPDX-License-Identifier: Apache-2.0
"""Cases as scikit-learn is trained on them: labelled, and weighted by what is at stake."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lanecast.learn.cases import EQUAL, Case

_LEAST_STAKE, _MOST_STAKE = 0.02, 1.0  # below, noise; above, a single case would bend the border
_MOST_EQUALS = 2


@dataclass(frozen=True)
class Samples:
    """A case stands in the classes that are as good as its best, lest a border runs between equals."""

    features: list[tuple[float, ...]]
    names: list[str]
    weights: list[float]  # 1 on average


def samples_of(cases: Sequence[Case]) -> Samples:
    """Only of classes that are the fastest somewhere. What is at stake is what the best of the others loses.

    Of many equals count the two that are good most often: each more makes a support vector, which costs time to ask.
    """
    winners = {case.best for case in cases}
    good_in = [[name for name in case.seconds if name in winners and case.lost(name) <= EQUAL] for case in cases]
    often = Counter(name for good in good_in for name in good)
    found = []
    for case, equals in zip(cases, good_in, strict=True):
        good = sorted(equals, key=lambda name: (-often[name], name))[:_MOST_EQUALS]
        worse = min((case.lost(name) for name in case.seconds if case.lost(name) > EQUAL), default=0.0)
        stake = min(max(worse, _LEAST_STAKE), _MOST_STAKE)
        found += [(case.features, name, stake / len(good)) for name in good]
    mean = statistics.mean(stake for *_, stake in found)
    return Samples(
        [features for features, _, _ in found], [name for _, name, _ in found], [stake / mean for *_, stake in found]
    )
