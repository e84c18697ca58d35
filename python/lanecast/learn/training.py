# SPDX-License-Identifier: Apache-2.0
"""One support vector machine for a collective (PCCL, section IV-C), trained by scikit-learn and judged on a fifth.

The fifth is drawn by configuration: repetitions of one would leak from training into it.
"""

from __future__ import annotations

import contextlib
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lanecast import _core
from lanecast.learn.cases import Case
from lanecast.learn.model import FEATURES, Trained

FOLDS = 5  # of the cross-validation; as large a share is held out before
_SEED = 20260101
_LEAST_CASES = 20
_LEAST_STAKE, _MOST_STAKE = 0.02, 1.0  # below, noise; above, a single case would bend the border
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

    Beyond the paper, a case weighs what is at stake in it, and cross-validation looks at time lost instead of accuracy.
    Raises UsageError without scikit-learn, and for too few cases.
    """
    if len(cases) < _LEAST_CASES:
        raise _core.UsageError(
            f"{collective}: {len(cases)} configurations, too few to learn from and to hold a fifth out; at least "
            f"{_LEAST_CASES} are needed"
        )
    kept, held_out = _split(cases)
    parameters = _search(kept)

    def refit(some: Sequence[Case]) -> Trained:
        return _fit(collective, some, parameters)

    return Fitted(refit(kept), held_out, parameters, refit)


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


def _split(cases: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    with _rare_classes_are_no_news():
        kept, held_out = next(_folds().split([case.features for case in cases], [case.best for case in cases]))
    return [cases[k] for k in kept], [cases[k] for k in held_out]


def _pipeline(parameters: dict[str, float]) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(kernel="rbf")).set_params(**parameters)


def _search(cases: Sequence[Case]) -> dict[str, float]:
    """The parameters whose choices lose least time; among equals the smoothest border."""
    from sklearn.model_selection import GridSearchCV

    features, best = [case.features for case in cases], [case.best for case in cases]
    if len(set(best)) == 1:
        return {}
    by_features: dict[tuple[float, ...], Case] = {case.features: case for case in cases}

    def score(pipeline: Any, some: Sequence[Sequence[float]], _: Sequence[str]) -> float:
        met = [by_features[tuple(each)] for each in some]
        return -statistics.mean(_lost(case, name) for case, name in zip(met, pipeline.predict(some), strict=True))

    search = GridSearchCV(_pipeline({}), _PARAMETERS, cv=_folds(), scoring=score, refit=False)
    with _rare_classes_are_no_news():
        search.fit(features, best, svc__sample_weight=_weights(cases))
    return dict(search.best_params_)


def _lost(case: Case, name: str) -> float:
    """A class that the case does not have counts as its slowest."""
    return case.lost(name) if name in case.seconds else max(case.lost(each) for each in case.seconds)


def _weights(cases: Sequence[Case]) -> list[float]:
    """Cases in which the second best takes as long matter little; 1 on average."""
    stakes = [min(max(case.stake, _LEAST_STAKE), _MOST_STAKE) for case in cases]
    return [stake / statistics.mean(stakes) for stake in stakes]


def _fit(collective: str, cases: Sequence[Case], parameters: dict[str, float]) -> Trained:
    features, best = [case.features for case in cases], [case.best for case in cases]
    span = {
        "bytes": [min(case.bytes for case in cases), max(case.bytes for case in cases)],
        "ranks": [min(case.ranks for case in cases), max(case.ranks for case in cases)],
    }
    names = sorted(set(best))
    if len(names) == 1:  # nothing to separate
        return Trained(collective, list(FEATURES), **span, algorithms=names, support=[0], mean=[0, 0],
                       scale=[1, 1], gamma=1, vectors=[], weights=[], intercepts=[])  # fmt: skip
    pipeline = _pipeline(parameters).fit(features, best, svc__sample_weight=_weights(cases))
    scaler, svc = pipeline[0], pipeline[1]
    sign = -1 if len(names) == 2 else 1  # of two classes scikit-learn turns libsvm's signs round
    return Trained(
        collective, list(FEATURES), **span, algorithms=[str(name) for name in svc.classes_],
        support=svc.n_support_.tolist(), mean=scaler.mean_.tolist(), scale=scaler.scale_.tolist(),
        gamma=parameters["svc__gamma"], vectors=svc.support_vectors_.tolist(), weights=(sign * svc.dual_coef_).tolist(),
        intercepts=(sign * svc.intercept_).tolist(),
    )  # fmt: skip


@contextlib.contextmanager
def _rare_classes_are_no_news() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        yield
