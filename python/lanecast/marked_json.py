# SPDX-License-Identifier: Apache-2.0
"""JSON files of ours: marked with what they are and the version of their format, read field by field, written whole."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lanecast import _core, cache
from lanecast.fields import FieldError, read_fields


@dataclass(frozen=True)
class Format:
    """What a file is called in messages, the field that marks it, its version, and how to make it anew."""

    name: str
    mark: str
    version: int  # raise it when a field changes its meaning
    remedy: str


def text(form: Format, record: Any) -> str:
    """A dataclass as its file has it: what holds no lists of its own, a support vector say, on one line."""
    return _lines({form.mark: form.version, **asdict(record)}, "\n") + "\n"


def _lines(value: Any, line: str) -> str:
    """line: how one begins."""
    inner = line + " "
    if isinstance(value, dict) and value:
        entries = [f"{json.dumps(key)}: {_lines(each, inner)}" for key, each in value.items()]
        return f"{{{inner}{f',{inner}'.join(entries)}{line}}}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return f"[{inner}{f',{inner}'.join(_lines(each, inner) for each in value)}{line}]"
    return json.dumps(value)


def fields(form: Format, path: Path, check: Callable[[bytes], object]) -> dict[str, Any]:
    """What a file holds but for its mark, where the core's check() of its text raises no UsageError.

    Raises UsageError that names the file and the field for whatever is wrong with it.
    """
    try:
        data = path.read_bytes()
        check(data)
    except (OSError, _core.UsageError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _core.UsageError(f"{form.name} {path}: {reason}") from None
    found: dict[str, Any] = json.loads(data)
    del found[form.mark]
    return found


def save(form: Format, record: Any, path: Path) -> None:
    """Write a dataclass whole or not at all. Makes the folder. Raises UsageError that names the file."""
    try:
        cache.write(path, text(form, record))
    except _core.UsageError as error:
        raise _core.UsageError(f"{form.name} {error}") from None


def load(form: Format, kind: Any, path: Path, *, named: bool = True) -> Any:
    """Read one, a dataclass of this kind with a check() that raises FieldError for what types alone do not say.

    named: by the user, who may name a file of anybody; one that was found has to be trusted. Raises UsageError that
    names the file and the field for whatever is wrong with it.
    """
    where = f"{form.name} {path}"
    try:
        found = path.read_bytes() if named else _core.trusted_text(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        data = json.loads(found.decode())
    except _core.UsageError as error:
        raise _core.UsageError(f"{where}: {error}") from None
    except OSError as error:
        raise _core.UsageError(f"{where}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _core.UsageError(f"{where}: is no JSON: {error}") from None
    if not isinstance(data, dict) or form.mark not in data:
        raise _core.UsageError(f"{where}: {form.mark}: missing, so this is no {form.name}")
    version = data.pop(form.mark)
    if type(version) is not int or version != form.version:  # True is equal to 1
        raise _core.UsageError(
            f"{where}: is stale: {form.mark}: {version!r}, this Lanecast reads {form.version}; {form.remedy}"
        )
    try:
        record = read_fields(kind, data)
        record.check()
    except (FieldError, _core.UsageError) as error:
        raise _core.UsageError(f"{where}: {error}") from None
    return record
