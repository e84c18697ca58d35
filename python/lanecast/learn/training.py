# SPDX-License-Identifier: Apache-2.0
"""One support vector machine for a collective (PCCL, section IV-C), trained by scikit-learn and judged on a fifth.

The fifth is drawn by configuration: repetitions of one would leak from training into it.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lanecast import _core
from lanecast.learn.cases import EQUAL, Case
from lanecast.learn.samples import Samples, samples_of
from lanecast.profiles.model import FEATURES, Trained

FOLDS = 5  # of the cross-validation; as large a share is held out before
_SEED = 20260101
LEAST_CASES = 20
_C, _GAMMA = [2.0**k for k in range(-1, 12, 2)], [2.0**k for k in range(-3, 4)]


@dataclass(frozen=True)
class Fitted:
    """A trained machine, the cases that it has not seen, and what cross-validation chose."""

    trained: Trained
    held_out: list[Case]
    parameters: dict[str, float]
    refit: Callable[[Sequence[Case]], Trained]  # the same parameters on other cases


def train(collective: str, cases: Sequence[Case]) -> Fitted:
    """Split stratified 80/20, choose C and gamma by five-fold cross-validation on the 80, train on these.

    Beyond the paper, a case weighs what is at stake in it and stands in each class that is as good as its best, and
    cross-validation looks at time lost instead of accuracy.
    Raises UsageError without scikit-learn, and for too few cases.
    """
    if len(cases) < LEAST_CASES:
        raise _core.UsageError(
            f"{collective}: {len(cases)} configurations, too few to learn from and to hold a fifth out; at least "
            f"{LEAST_CASES} are needed"
        )
    kept, held_out = fifths(cases)[0]
    parameters = _search(kept)

    def refit(some: Sequence[Case]) -> Trained:
        return _fit(collective, some, parameters)

    return Fitted(refit(kept), held_out, parameters, refit)


def with_times(trained: Trained, cases: Sequence[Case]) -> Trained:
    """The same with what its classes took, so that a call which takes longer than its like is noticed."""
    ordered = sorted(cases, key=lambda case: (case.ranks, case.bytes))
    times = [
        [[case.ranks, case.bytes, case.seconds[name]] for case in ordered if name in case.seconds]
        for name in trained.algorithms
    ]
    return replace(trained, times=times)


def require_scikit_learn() -> str:
    """Its version. Raises UsageError that says how to get it."""
    try:
        import sklearn
    except ImportError:
        raise _core.UsageError("training needs scikit-learn: pip install 'lanecast[learn]'") from None
    return str(sklearn.__version__)


def _folds() -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(FOLDS, shuffle=True, random_state=_SEED)


def fifths(cases: Sequence[Case]) -> list[tuple[list[Case], list[Case]]]:
    """(to train on, held out), stratified by the fastest; train() holds the first out."""
    best = [case.best for case in cases]
    if max(map(best.count, best)) < FOLDS:  # no class can be in each
        best = [""] * len(cases)
    with _rare_classes_are_no_news():
        splits = list(_folds().split([case.features for case in cases], best))
    return [([cases[k] for k in kept], [cases[k] for k in held_out]) for kept, held_out in splits]


def _search(cases: Sequence[Case]) -> dict[str, float]:
    """The parameters whose choices lose least time; among equals the smoothest border.

    By hand, since scikit-learn's own search takes eight times as long, mostly between the fits.
    """
    samples = samples_of(cases)
    if len(set(samples.names)) < 2:  # of what is held out there may be more
        return {"C": 1.0, "gamma": 1.0}
    lost = dict.fromkeys(itertools.product(_C, _GAMMA), 0.0)
    for kept, held_out in fifths(cases):
        fold = _Fold(samples, kept, held_out)
        for parameters in lost:
            lost[parameters] += fold.lost(*parameters)
    c, gamma = min(lost, key=lost.__getitem__)
    return {"C": c, "gamma": gamma}


class _Fold:
    """Samples of the cases that are kept, and what the choices for those that are held out lose."""

    def __init__(self, samples: Samples, kept: Sequence[Case], held_out: Sequence[Case]) -> None:
        from sklearn.preprocessing import StandardScaler

        known = {case.features for case in kept}
        rows = [row for row, each in enumerate(samples.features) if each in known]
        self._names = [samples.names[row] for row in rows]
        self._weights = [samples.weights[row] for row in rows]
        scaler = StandardScaler().fit([samples.features[row] for row in rows])
        self._features = scaler.transform([samples.features[row] for row in rows])
        self._cases = list({case.features: case for case in held_out}.values())
        self._asked = scaler.transform([case.features for case in self._cases])

    def lost(self, c: float, gamma: float) -> float:
        """On average."""
        from sklearn.svm import SVC

        if len(set(self._names)) < 2:
            return statistics.mean(_lost(case, self._names[0]) for case in self._cases)
        machine = SVC(kernel="rbf", C=c, gamma=gamma).fit(self._features, self._names, sample_weight=self._weights)
        choices = zip(self._cases, machine.predict(self._asked), strict=True)
        return statistics.mean(_lost(case, str(name)) for case, name in choices)


def _lost(case: Case, name: str) -> float:
    """A class that the case does not have counts as its slowest."""
    return case.lost(name) if name in case.seconds else max(case.lost(each) for each in case.seconds)


def _fit(collective: str, cases: Sequence[Case], parameters: dict[str, float]) -> Trained:
    samples = samples_of(cases)
    sizes, counts = [case.bytes for case in cases], [case.ranks for case in cases]
    span = [int(min(sizes) * (1 - EQUAL)), int(max(sizes) * (1 + EQUAL))]  # sizes are rounded to whole elements
    names = sorted(set(samples.names))
    known = partial(
        Trained, collective, list(FEATURES), bytes=span, ranks=[min(counts), max(counts)],
        algorithms=names, timed_on=[_ranks_of(name, cases) for name in names],
    )  # fmt: skip
    if len(names) == 1:  # nothing to separate
        none, one = [0.0] * len(FEATURES), [1.0] * len(FEATURES)
        return known(support=[0], mean=none, scale=one, gamma=1, vectors=[], weights=[], intercepts=[])
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    scaler = StandardScaler().fit(samples.features)
    svc = SVC(kernel="rbf", **parameters)
    svc.fit(scaler.transform(samples.features), samples.names, sample_weight=samples.weights)
    sign = -1 if len(names) == 2 else 1  # of two classes scikit-learn turns libsvm's signs round
    return known(
        support=svc.n_support_.tolist(), mean=scaler.mean_.tolist(), scale=scaler.scale_.tolist(),
        gamma=parameters["gamma"], vectors=svc.support_vectors_.tolist(), weights=(sign * svc.dual_coef_).tolist(),
        intercepts=(sign * svc.intercept_).tolist(),
    )  # fmt: skip


def _ranks_of(name: str, cases: Sequence[Case]) -> list[int]:
    counts = [case.ranks for case in cases if name in case.seconds]
    return [min(counts), max(counts)]


@contextlib.contextmanager
def _rare_classes_are_no_news() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        yield
