# SPDX-License-Identifier: Apache-2.0
"""Who waits for what while several processes move a rank's all-reduce: shares of the time of rank 0, by its own trace.

lanecast cluster run --hosts 2 --ranks-per-host 4 --nics 2 --rate 10gbit -- python bench/helper_waits.py --processes 1,4

A rank moves messages (over TCP that is work of its own), adds and copies, or waits since nothing moves; then it waits
for its helpers. What its core does is told beside that.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import lanecast
from lanecast import traces
from lanecast.bench.options import parse_processes, parse_sizes

CALLS = 5


def length_s(records: list[dict[str, Any]]) -> float:
    return float(sum(record["end_ns"] - record["begin_ns"] for record in records)) / 1e9


def tcp_counts() -> dict[str, int]:
    """Of this host's network: segments sent once more, and times that TCP waited for its timer before."""
    found: dict[str, str] = {}
    for file in ("snmp", "netstat"):
        lines = Path(f"/proc/self/net/{file}").read_text().splitlines()
        for names, counts in zip(lines[::2], lines[1::2], strict=True):
            found.update(zip(names.split(), counts.split(), strict=True))
    return {"sent again": int(found["RetransSegs"]), "timeouts": int(found["TCPTimeouts"])}


def shares(comm: Any, call: Callable[[], None], folder: Path) -> dict[str, Any]:
    """Of the time of some calls, by this rank's own slices."""
    call()  # plans and connections
    tcp = tcp_counts()
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    first_ns = time.time_ns()
    ends = [begin]
    for _ in range(CALLS):
        call()
        ends.append(time.perf_counter())
    took = ends[-1] - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    comm.write_trace(str(folder))
    own = next(job.ranks[comm.rank] for job in traces.read(folder) if comm.rank in job.ranks)
    since = [
        [each for each in records if each["begin_ns"] >= first_ns] for records in (own.calls, own.works, own.waits)
    ]
    calls, works, waits = map(length_s, since)
    return {
        "ms": [round((end - start) * 1e3, 3) for start, end in pairwise(ends)],
        **{name: count - tcp[name] for name, count in tcp_counts().items()},
        "moves": (calls - works - waits) / took,
        "adds": works / took,
        "waits": waits / took,
        "waits for helpers": (took - calls) / took,
        "of its core in the kernel": (after.ru_stime - before.ru_stime) / took,
        "of its core beside that": (after.ru_utime - before.ru_utime) / took,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,4")
    parser.add_argument("--size", default="512M")
    parser.add_argument("--algorithm", default="ring")
    parser.add_argument("--chunks", default="0", help="of each slice, several by commas; 0: as it is chosen")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    numbers = parse_processes(given.processes)
    comm: Any = lanecast.init(processes_per_gpu=max(numbers), allow_shared_cores=True, trace_steps=True)
    buffer = comm.shared_empty(parse_sizes(given.size)[0] // 4, "float32")
    buffer[:] = 1
    found = []
    for number, chunks in product(numbers, map(int, given.chunks.split(","))):
        comm.use_processes(number)
        call = partial(comm.all_reduce, buffer, algorithm=given.algorithm, chunks=chunks)
        with tempfile.TemporaryDirectory() as folder:
            found.append({"processes": number, "chunks": chunks, **shares(comm, call, Path(folder))})
        if comm.rank == 0:
            print({name: share if name == "ms" else round(share, 3) for name, share in found[-1].items()}, flush=True)
    if comm.rank == 0 and given.json is not None:
        given.json.write_text(json.dumps({"transports": comm.transports, "algorithm": given.algorithm, "rows": found}))


if __name__ == "__main__":
    main()
