# SPDX-License-Identifier: Apache-2.0
"""From parsed JSON or TOML to dataclasses, by their annotations; what does not fit is named by its path."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Iterator
from typing import Any

from lanecast import _core


class FieldError(ValueError):
    """A field that is missing, unknown or no such thing: "fits[3].alpha_s: 'fast' is no number"."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")


@contextlib.contextmanager
def naming_file(what: str) -> Iterator[None]:
    """Turn whatever is wrong with a TOML file that is read inside into a UsageError that begins with `what`."""
    try:
        yield
    except (FieldError, _core.UsageError) as error:
        raise _core.UsageError(f"{what}: {error}") from None
    except OSError as error:
        raise _core.UsageError(f"{what}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # int()'s own for thousands of digits, too
        raise _core.UsageError(f"{what}: is no TOML: {error}") from None


def read_fields(kind: Any, data: Any, path: str = "") -> Any:
    """A dataclass of this kind from a dictionary. Raises FieldError with the path of the first wrong field.

    A float must be finite and not negative, as all seconds, rates and shares are.
    """
    if not isinstance(data, dict):
        raise FieldError(path or "file", "expected named fields")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}
    prefix = f"{path}." if path else ""
    for name in data:
        if name not in known:
            raise FieldError(f"{prefix}{name}", f"unknown; known: {', '.join(known)}")
    values = {}
    for name, field in known.items():
        if name in data:
            values[name] = _read(hints[name], data[name], f"{prefix}{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise FieldError(f"{prefix}{name}", "missing")
    return kind(**values)


def _read(kind: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is types.UnionType:  # X | None
        return _read(typing.get_args(kind)[0], value, path)
    if dataclasses.is_dataclass(kind):
        return read_fields(kind, value, path)
    if origin is list:
        if not isinstance(value, list):
            raise FieldError(path, f"{value!r} is no list")
        (item,) = typing.get_args(kind)
        return [_read(item, each, f"{path}[{at}]") for at, each in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise FieldError(path, f"{value!r} is no table")
        _, item = typing.get_args(kind)
        return {key: _read(item, each, f"{path}.{key}") for key, each in value.items()}
    return _scalar(kind, value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise FieldError(path, "a number of more than 64 bits")
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise FieldError(path, f"{value!r} is no number")
        if value < 0:
            raise FieldError(path, f"{value!r} is no number of at least 0")
        return float(value)
    if kind is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise FieldError(path, f"{value!r} is no whole number")
    if kind is bool and not isinstance(value, bool):
        raise FieldError(path, f"{value!r} is neither true nor false")
    if kind is str and (not isinstance(value, str) or not _is_unicode(value)):
        raise FieldError(path, f"{value!r} is no text")
    return value


def _is_unicode(text: str) -> bool:
    """JSON can name one half of a character, which nothing can print."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
