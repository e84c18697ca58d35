# SPDX-License-Identifier: Apache-2.0
"""The core's codes of element types and reduction operators, by the names that other packages give them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lanecast import _core

DTYPE_CODES = {name: code for code, name in enumerate(_core.DTYPES)}
OP_CODES = {name: code for code, name in enumerate(_core.OPS)}

# Names that other packages give to the same types; the 8- and 16-bit floats are those of the package ml_dtypes.
_ALIASES = {"float8_e4m3fn": "float8_e4m3"}
_OTHER_NAMES = {ours: theirs for theirs, ours in _ALIASES.items()}
_OF_ML_DTYPES = ("bfloat16", "float8_e4m3", "float8_e5m2")


def known_code(name: str) -> int | None:
    """Code of an element type; None for what no reduction knows."""
    return DTYPE_CODES.get(_ALIASES.get(name, name))


def dtype_code(name: Any, argument: str, rank: int) -> int:
    """The same; raises UsageError, naming argument and rank, for what no reduction knows."""
    code = known_code(str(name))
    if code is None:
        raise _core.UsageError(f"rank {rank}: {argument} has dtype {name}; supported: {', '.join(DTYPE_CODES)}")
    return code


def itemsize(name: str) -> int:
    """Bytes of an element of one of our types: their names begin with the kind and its bits."""
    found = re.match("[a-z]+([0-9]+)", name)
    assert found is not None
    return int(found[1]) // 8


def numpy_dtype(name: str) -> np.dtype[Any]:
    """numpy's type of this name of ours. Raises UsageError where it is ml_dtypes' and that package is not there."""
    if name not in _OF_ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise _core.UsageError(
            f"dtype {name!r}: numpy has no such type, the package ml_dtypes has: pip install ml_dtypes"
        ) from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _OTHER_NAMES.get(name, name)))
    return found


def torch_dtype(name: str) -> Any:
    """torch's type of this name of ours or torch's."""
    import torch

    return getattr(torch, _OTHER_NAMES.get(name, name))


def op_code(op: str, rank: int) -> int:
    """Code of a reduction operator; raises UsageError for unknown names."""
    code = OP_CODES.get(op) if isinstance(op, str) else None
    if code is None:
        raise _core.UsageError(f"rank {rank}: op {op!r} is unknown; known: {', '.join(OP_CODES)}")
    return code
