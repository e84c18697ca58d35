# SPDX-License-Identifier: Apache-2.0
"""Which of a database's times are meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lanecast import _core
from lanecast.profiles.scope import Scope


def one_of(scopes: Sequence[Scope], machine: str, origin: str, database: Path) -> Scope:
    """The scope of this machine and origin, either of which may be empty. UsageError unless there is exactly one.

    Of those that differ in what was simulated alone, the latest: the others' times are those of code that has gone.
    Those that differ in how calls on GPUs were made count as one: of_calls() tells them apart.
    """
    fitting = [scope for scope in scopes if machine in {"", scope.machine} and origin in {"", scope.origin}]
    if len({replace(scope, digest="", calls="") for scope in fitting}) == 1:
        return fitting[-1]
    what = "none that fits" if not fitting else "several that fit"
    known = "; ".join(str(scope) for scope in scopes) or "none"
    raise _core.UsageError(
        f"database {database}: has {what}: choose by --machine and --origin, and keep times that differ otherwise in "
        f"files of their own; it has times of: {known}"
    )


def of_calls(scopes: Sequence[Scope], scope: Scope) -> list[Scope]:
    """Those that differ from this one in how calls were made alone, itself among them."""
    return [each for each in scopes if replace(each, calls=scope.calls) == scope]
