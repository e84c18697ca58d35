# SPDX-License-Identifier: Apache-2.0
"""One support vector machine for a collective (PCCL, section IV-C), trained by scikit-learn and judged on a fifth.

The fifth is drawn by configuration: repetitions of one would leak from training into it.
"""

from __future__ import annotations

import contextlib
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lanecast import _core
from lanecast.learn.cases import EQUAL, Case
from lanecast.learn.samples import samples_of
from lanecast.profiles.model import FEATURES, Trained

FOLDS = 5  # of the cross-validation; as large a share is held out before
_SEED = 20260101
_LEAST_CASES = 20
_PARAMETERS = {
    "svc__C": [2.0**k for k in range(-1, 12, 2)],
    "svc__gamma": [2.0**k for k in range(-3, 4)],
}


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
    if len(cases) < _LEAST_CASES:
        raise _core.UsageError(
            f"{collective}: {len(cases)} configurations, too few to learn from and to hold a fifth out; at least "
            f"{_LEAST_CASES} are needed"
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
    with _rare_classes_are_no_news():
        splits = list(_folds().split([case.features for case in cases], [case.best for case in cases]))
    return [([cases[k] for k in kept], [cases[k] for k in held_out]) for kept, held_out in splits]


def _pipeline(parameters: dict[str, float]) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(kernel="rbf")).set_params(**parameters)


def _search(cases: Sequence[Case]) -> dict[str, float]:
    """The parameters whose choices lose least time; among equals the smoothest border."""
    from sklearn.model_selection import GridSearchCV

    samples = samples_of(cases)
    if len(set(samples.names)) < 2:
        return {}
    by_features: dict[tuple[float, ...], Case] = {case.features: case for case in cases}

    def score(pipeline: Any, some: Sequence[Sequence[float]], _: Sequence[str]) -> float:
        met = {tuple(each) for each in some}
        choices = zip(met, pipeline.predict(list(met)), strict=True)
        return -statistics.mean(_lost(by_features[each], name) for each, name in choices)

    def rows(some: Sequence[Case]) -> list[int]:
        features = {case.features for case in some}
        return [row for row, each in enumerate(samples.features) if each in features]

    folds = [(rows(kept), rows(held_out)) for kept, held_out in fifths(cases)]
    search = GridSearchCV(_pipeline({}), _PARAMETERS, cv=folds, scoring=score, refit=False)
    search.fit(samples.features, samples.names, svc__sample_weight=samples.weights)
    return dict(search.best_params_)


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
    pipeline = _pipeline(parameters).fit(samples.features, samples.names, svc__sample_weight=samples.weights)
    scaler, svc = pipeline[0], pipeline[1]
    sign = -1 if len(names) == 2 else 1  # of two classes scikit-learn turns libsvm's signs round
    return known(
        support=svc.n_support_.tolist(), mean=scaler.mean_.tolist(), scale=scaler.scale_.tolist(),
        gamma=parameters["svc__gamma"], vectors=svc.support_vectors_.tolist(), weights=(sign * svc.dual_coef_).tolist(),
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
