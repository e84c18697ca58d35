# SPDX-License-Identifier: Apache-2.0
"""Runs tests of JAX and of cupy for several GPUs, which judge their results themselves, over NCCL and over Lanecast.

    python bench/outside/own_tests.py FOLDER [--only jax] [--budget 60]

FOLDER has checkouts of jax and cupy; what runs is the installed package. Two processes with a GPU each run a test.
Lanecast comes in by liblanecast_nccl.so, under NCCL's own name. Its lines say how many kinds of calls it took.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lanecast import _core

WAYS = ["nccl", "preloaded"]
_CUPYS = ("broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather", "send_and_recv", "send_recv", "scatter",
          "gather", "all_to_all", "sparse_broadcast", "sparse_send_and_recv")  # fmt: skip
# As comm_runner.py itself does, which would take one test a process.
_ALL_OF_CUPY = f"""
import comm_runner
for name in {_CUPYS}:
    getattr(comm_runner, name)("f", False)
    print("Ran", name)
"""


@dataclass(frozen=True)
class Test:
    name: str
    folder: str
    words: tuple[str, ...]  # that follow the Python


TESTS = [
    *(Test(f"jax {name}", "jax/tests/multiprocess",
           (f"{name}_test.py", "--num_processes=2", "--gpus_per_process=1", "--initialization_timeout=60"))
      for name in ("all_reduce", "all_gather", "all_to_all", "pmap", "pjit", "axis_index", "multihost_utils", "array")),
    Test(f"cupy, {len(_CUPYS)} tests", "cupy/tests/cupyx_tests/distributed_tests", ("-c", _ALL_OF_CUPY)),
]  # fmt: skip


@dataclass
class Ended:
    well: bool
    seconds: float
    said: str
    takers: Counter[str] = field(default_factory=Counter)


def _in_place(folder: Path) -> dict[str, str]:
    """Programs that open NCCL by its name get the library under it."""
    (folder / "libnccl.so.2").symlink_to(Path(_core.__file__).with_name("liblanecast_nccl.so"))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return {"LD_LIBRARY_PATH": path, "LD_PRELOAD": "libnccl.so.2"}


def run(test: Test, way: str, checkouts: Path, limit_s: float) -> Ended:
    with tempfile.TemporaryDirectory(prefix="own-tests") as scratch:
        log = Path(scratch) / "nccl"
        variables = {
            **os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{log}.%p", "LANECAST_TORCH": "0",
            "TEST_UNDECLARED_OUTPUTS_DIR": scratch, "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **(_in_place(Path(scratch)) if way == "preloaded" else {}),
        }  # fmt: skip
        began = time.monotonic()
        started = subprocess.Popen(
            [sys.executable, *test.words], cwd=checkouts / test.folder, env=variables, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        try:
            said = started.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            started.terminate()  # JAX's ends its own processes then
            said = started.communicate()[0] + f"\nnot within {limit_s:.0f} s"
        lines = "".join(file.read_text(errors="replace") for file in sorted(Path(scratch).glob("nccl.*")))
    takers = Counter(re.findall(r"LANECAST rank \d+: \w+ of .* by (Lanecast|NCCL)", lines))
    takers.update(re.findall(r"LANECAST communicator .*: (all goes by NCCL: .*)", lines))
    return Ended(started.returncode == 0, time.monotonic() - began, said, takers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="names, or beginnings of names, in the order to run")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--limit", type=float, default=90.0, help="seconds for one run")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing more is begun")
    parser.add_argument("--said", type=Path, help="a folder for what the tests print")
    given = parser.parse_args()
    if given.said:
        given.said.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.budget
    for test in [each for name in given.only or [""] for each in TESTS if each.name.startswith(name)]:
        for way in given.ways:
            if time.monotonic() > until:
                print(f"{test.name} {way}: no time left", flush=True)
                continue
            ended = run(test, way, given.folder.resolve(), given.limit)
            if given.said:
                (given.said / f"{test.name}-{way}.txt".replace(" ", "_")).write_text(ended.said)
            ran = ", ".join(dict.fromkeys(re.findall(r"Ran \d+ tests?|OK \(skipped=\d+\)", ended.said)))
            ran = ran or f"ran {len(re.findall('^Ran ', ended.said, re.MULTILINE))} tests"
            calls = ", ".join(f"{count} by {taker}" for taker, count in ended.takers.items())
            print(f"{test.name:26} {way:9} {'ends well' if ended.well else 'FAILS':9} {ended.seconds:5.1f} s"
                  f"  {ran}  {calls}", flush=True)  # fmt: skip
            if not ended.well:
                wrong = [line for line in ended.said.splitlines() if re.search("Error|FAIL|error:|not within", line)]
                print("".join(f"    {line[:180]}\n" for line in wrong[-3:]), end="", flush=True)


if __name__ == "__main__":
    main()
