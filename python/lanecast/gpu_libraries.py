# SPDX-License-Identifier: Apache-2.0
"""Where the GPU's libraries may lie beside the loader's path: PyPI's nvidia-… packages bring them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lanecast import _core


def folders() -> list[str]:
    """The lib folders of the packages nvidia-…, in the order of sys.path."""
    return [str(folder) for entry in sys.path if entry for folder in _in(Path(entry))]


def _in(entry: Path) -> list[Path]:
    try:
        return sorted(entry.glob("nvidia/*/lib"))
    except OSError:  # Python, too, passes over entries that this user may not read
        return []


def with_gpu(options: dict[str, Any]) -> dict[str, Any]:
    """A communicator's options with what its first call on a GPU has to know."""
    return {"gpu_library_folders": folders(), "kernel_cache": _core.user_cache("kernels") or "", **options}
