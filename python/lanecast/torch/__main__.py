# SPDX-License-Identifier: Apache-2.0
"""`python -m lanecast.torch run SCRIPT ARGS`: an unchanged program of torch.distributed, with Lanecast as its backend.

As LANECAST_TORCH=1 does, also where torch does not load plug-ins. The processes that the program starts inherit it.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import lanecast_torch

_USAGE = f"""usage: python -m lanecast.torch run SCRIPT [ARGUMENTS]
       python -m lanecast.torch run -m MODULE [ARGUMENTS]
       torchrun ... -m lanecast.torch run SCRIPT [ARGUMENTS]
Groups that ask for nccl, gloo or nothing are made by Lanecast. {lanecast_torch.VARIABLE}=0 goes back."""


def main(arguments: list[str]) -> int:
    """Run what the command line names, in this process. Returns the exit status: 2 where the command line was wrong."""
    if arguments in (["--help"], ["-h"]):
        print(_USAGE)
        return 0
    as_module = arguments[1:2] == ["-m"]
    named = arguments[2 if as_module else 1 :]
    if arguments[:1] != ["run"] or not named:
        print(_USAGE, file=sys.stderr)
        return 2
    script = Path(named[0])
    if not as_module and not script.exists():
        print(f"lanecast.torch: {script}: there is no such file\n{_USAGE}", file=sys.stderr)
        return 2
    os.environ.setdefault(lanecast_torch.VARIABLE, "1")
    lanecast_torch.register()
    sys.argv = named
    # As python itself does: the script's folder, or the one that one is in, instead of nothing.
    sys.path[0] = str(Path.cwd()) if as_module else str(script.resolve().parent)
    if as_module:
        runpy.run_module(named[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
