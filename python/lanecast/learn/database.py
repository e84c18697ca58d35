# SPDX-License-Identifier: Apache-2.0
"""Times of whole calls in an SQLite file: what was measured or simulated, where, and with which software.

A configuration (collective, ranks, bytes) is written in one transaction, with all its algorithms and rounds, so that a
run that was killed leaves whole ones only and goes on behind them.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lanecast import _core
from lanecast.fields import read_fields
from lanecast.profiles.scope import Scope

VERSION = 1  # of the tables; raise it when a column changes its meaning
_APPLICATION = 0x4C414E45  # "LANE", by which a file of ours is known
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite's own words quote damaged text
_ACTING = "SELECT group_concat(DISTINCT type) FROM sqlite_master WHERE type IN ('view', 'trigger')"
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,     -- JSON, see lanecast.profiles.scope
  software TEXT NOT NULL   -- JSON: versions, commit, command, when, the platform's figures; for people
);
CREATE TABLE IF NOT EXISTS times (
  run INTEGER NOT NULL REFERENCES runs(id),
  collective TEXT NOT NULL,
  ranks INTEGER NOT NULL,
  bytes INTEGER NOT NULL,     -- of the full buffer
  algorithm TEXT NOT NULL,
  chunks INTEGER NOT NULL,
  predicted_s REAL,           -- by the cost model then in use; NULL: it knows none
  round INTEGER NOT NULL,     -- rounds alternate between the algorithms of a configuration
  seconds REAL NOT NULL,
  PRIMARY KEY (run, collective, ranks, bytes, algorithm, round)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, order=True)
class Configuration:
    """What is learned from as one: repetitions are no further configurations."""

    collective: str
    ranks: int
    bytes: int


@dataclass(frozen=True)
class Timed:
    """One algorithm in one configuration."""

    algorithm: str
    chunks: int
    predicted_s: float | None
    seconds: tuple[float, ...]  # of each round


class Database:
    """An open file. Raises UsageError that names the file for whatever is wrong with it."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if not create and not path.exists():
            raise self._error("No such file")
        try:
            if create:
                _core.make_folders(path.parent)
            self._connection = sqlite3.connect(path, timeout=30)
        except (_core.UsageError, sqlite3.Error) as error:
            raise self._error(str(error)) from None
        try:
            self._open(create)
        except _UNREADABLE as error:
            self._connection.close()
            raise self._error(f"is no database of times: {error}") from None
        except _core.UsageError:
            self._connection.close()
            raise

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def scopes(self) -> list[Scope]:
        """Of all times, in the order in which they came."""
        return list(dict.fromkeys(self._runs().values()))

    def read(self, scope: Scope) -> dict[Configuration, list[Timed]]:
        """Everything that is known of a scope; of a time taken twice the later one."""
        runs = [run for run, known in self._runs().items() if known == scope]
        found: dict[Configuration, dict[str, tuple[int, Timed]]] = {}
        for row in self._rows("SELECT * FROM times ORDER BY run, collective, ranks, bytes, algorithm, round"):
            run, collective, ranks, size, algorithm, chunks, predicted_s, _, seconds = row
            if run not in runs:
                continue
            self._check(row)
            known = found.setdefault(Configuration(collective, ranks, size), {})
            before = known[algorithm][1].seconds if algorithm in known and known[algorithm][0] == run else ()
            known[algorithm] = run, Timed(algorithm, chunks, predicted_s, (*before, seconds))
        return {configuration: [timed for _, timed in known.values()] for configuration, known in found.items()}

    def add_run(self, scope: Scope, software: dict[str, Any]) -> int:
        """What the times to come were taken with; add() wants its number."""
        with self._written():
            cursor = self._connection.execute(
                "INSERT INTO runs (scope, software) VALUES (?, ?)",
                (json.dumps(asdict(scope), sort_keys=True), json.dumps(software, sort_keys=True)),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def add(self, run: int, configuration: Configuration, times: Sequence[Timed]) -> None:
        """All times of a configuration, or none of them where the process ends meanwhile."""
        key = (run, configuration.collective, configuration.ranks, configuration.bytes)
        rows = [
            (*key, timed.algorithm, timed.chunks, timed.predicted_s, number, seconds)
            for timed in times
            for number, seconds in enumerate(timed.seconds)
        ]
        with self._written():
            self._connection.executemany("INSERT INTO times VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def software(self, scope: Scope) -> list[dict[str, Any]]:
        """With what the times of a scope were taken, run by run."""
        runs = [run for run, known in self._runs().items() if known == scope]
        found = []
        for run, software in self._rows("SELECT id, software FROM runs ORDER BY id"):
            if run not in runs:
                continue
            try:
                found.append(dict(json.loads(software)))
            except (TypeError, ValueError, RecursionError):
                raise self._error(f"runs.software: {software!r} is no JSON") from None
        return found

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """One transaction, whole or not at all."""
        try:
            with self._connection:
                yield
        except sqlite3.OperationalError as error:  # read-only, full or locked
            raise self._error(f"cannot be written: {error}; is the file, and its folder, writable?") from None

    def _open(self, create: bool) -> None:
        # The file may come from somebody else: a schema of ours calls no function, and has tables alone.
        for pragma in ("foreign_keys = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables == 0 and create:
            with self._connection:
                marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION};"
                self._connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} {marks} COMMIT;")
        elif application != _APPLICATION:
            raise self._error("application_id: is another program's database")
        elif version != VERSION:
            raise self._error(f"user_version: {version}, this Lanecast reads {VERSION}; take the times again")
        (acting,) = self._connection.execute(_ACTING).fetchone()
        if acting:
            raise self._error(f"holds a {acting}, as no database of times does")

    def _runs(self) -> dict[int, Scope]:
        found = {}
        for number, text in self._rows("SELECT id, scope FROM runs ORDER BY id"):
            try:
                scope: Scope = read_fields(Scope, json.loads(text))
                scope.check()
            except (TypeError, ValueError, RecursionError) as error:  # FieldError is a ValueError
                raise self._error(f"runs.scope of run {number}: {error}") from None
            found[number] = scope
        return found

    def _rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, arguments).fetchall()
        except _UNREADABLE as error:
            raise self._error(f"is damaged: {error}") from None

    def _check(self, row: tuple[Any, ...]) -> None:
        """SQLite keeps whatever is put into a column."""
        run, collective, ranks, size, algorithm, chunks, predicted_s, _, seconds = row
        if collective not in _core.KINDS:
            raise self._error(f"times.collective of run {run}: {collective!r}; known: {', '.join(_core.KINDS)}")
        for name, number in (("ranks", ranks), ("bytes", size), ("chunks", chunks)):
            if not isinstance(number, int) or number < 1:
                raise self._error(f"times.{name} of run {run}: {number!r} is no whole number of at least 1")
        if not isinstance(algorithm, str):
            raise self._error(f"times.algorithm of run {run}: {algorithm!r} is no text")
        for name, value in (("seconds", seconds), ("predicted_s", predicted_s)):
            if value is None and name == "predicted_s":
                continue
            if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
                raise self._error(f"times.{name} of run {run}: {value!r} is no time")

    def _error(self, what: str) -> _core.UsageError:
        return _core.UsageError(f"database {self.path}: {what}")
