# SPDX-License-Identifier: Apache-2.0
"""How fast the CPU kernels reduce two sources, beside numpy's copy and add of the same buffers on the same machine.

Rates count bytes read and written by the program, as STREAM does: a reduction moves three times the buffer, a copy two.
The reference and the kernels take turns, so that a busy machine slows both: compare by the ratio.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lanecast import _core

DTYPES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1, "float8_e5m2": 1,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip
OPS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor")
ROUND_S = 0.004  # long enough to hide the call from Python, short enough to be missed by most interruptions


def supported(dtype: str, op: str) -> bool:
    is_float = dtype.startswith(("float", "bfloat"))
    return op not in (("band", "bor", "bxor") if is_float else ("avg",))


def buffer(nbytes: int) -> NDArray[np.uint8]:
    """Aligned to a page; ones of some size in every type."""
    room = np.full(nbytes + 4096, 0x3C, np.uint8)
    return room[-room.ctypes.data % 4096 :][:nbytes]


def seconds(call: Callable[[], object]) -> float:
    calls, elapsed = 0, 0.0
    start = time.perf_counter()
    while elapsed < ROUND_S:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / calls


def measure(nbytes: int, rounds: int, variant: str, pairs: list[tuple[str, str]]) -> None:
    a, b, c = (buffer(nbytes) for _ in range(3))
    a64, b64, c64 = (x.view(np.float64) for x in (a, b, c))

    def reduction(dtype: str, op: str) -> Callable[[], object]:
        divisor = 2.0 if op == "avg" else 1.0
        return lambda: _core.reduce(dtype, op, c, [a, b], nbytes // DTYPES[dtype], divisor, variant)

    add = "numpy add float64"
    rows: dict[str, tuple[int, Callable[[], object]]] = {
        add: (3, lambda: np.add(a64, b64, out=c64)),
        "numpy copy": (2, lambda: np.copyto(c, a)),
        "copy (one source)": (2, lambda: _core.reduce("uint8", "sum", c, [a], nbytes)),
        **{f"{dtype} {op}": (3, reduction(dtype, op)) for dtype, op in pairs},
    }
    rates: dict[str, list[float]] = {name: [] for name in rows}
    ratios: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, (streams, call) in rows.items():
            reference = 3 * nbytes / seconds(rows[add][1])
            rates[name].append(streams * nbytes / seconds(call))
            ratios[name].append(rates[name][-1] / reference)

    print(f"\n{nbytes / 2**20:g} MiB per buffer      GB/s (least to most)    of numpy's add beside it")
    for name in rows:
        gb_s = sorted(rate / 1e9 for rate in rates[name])
        spread = f"({gb_s[0]:.1f} to {gb_s[-1]:.1f})"
        print(f"{name:20} {statistics.median(gb_s):10.1f} {spread:20} {statistics.median(ratios[name]):8.2f}")


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--mib", type=float, nargs="+", default=[0.1875, 64], help="buffer sizes; default: cache, memory"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--op", nargs="+", choices=OPS, default=list(OPS))
    parser.add_argument("--variant", choices=_core.kernel_variants(), default=_core.kernel_variants()[0])
    args = parser.parse_args()
    pairs = [(dtype, op) for dtype in args.dtype for op in args.op if supported(dtype, op)]
    print(f"{cpu_model()}, {platform.system()} {platform.release()}, Python {platform.python_version()},")
    print(f"numpy {np.__version__}, variant {args.variant}, one thread, median of {args.rounds} rounds")
    for mib in args.mib:
        measure(int(mib * 2**20) // 64 * 64, args.rounds, args.variant, pairs)


if __name__ == "__main__":
    main()
