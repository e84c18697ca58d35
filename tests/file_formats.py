# SPDX-License-Identifier: Apache-2.0
"""The files that Lanecast reads: a sample of each, and what a program does with one that it was given."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import lanecast
from lanecast import _core, machines, marked_json, topologies, traces
from lanecast.cluster import registry
from lanecast.cluster.shape import Shape
from lanecast.compose import Knobs, forms, programs
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.plans import programs_from_json, programs_to_json
from lanecast.plans.json import from_json, to_json
from lanecast.profiles import gpu_profile, model, profile
from lanecast.profiles.scope import Scope
from lanecast.profiles.surprises import Surprise
from learned_models import constant

PLANS = tuple(
    to_json(_core.make_plans(kind, _core.Topology(2), algorithm), _core.Topology(2))
    for kind, algorithm in (("all_reduce", "ring"), ("all_gather", "bruck"), ("all_reduce", "mpi"))
)

PROGRAMS = tuple(
    programs_to_json([program for _, program in programs(made, 33, knobs=Knobs(chunks=2))])
    for made in (forms.all_reduce_by_all_gather(2), forms.reduce(3, op="avg"))
)

PROFILE = json.dumps(
    {
        profile.FORMAT.mark: profile.FORMAT.version,
        **asdict(
            profile.Profile(
                shape=profile.Shape("0.1.0", "a cpu", 2, 2, "2x2", ["mpi", "shm"]),
                links=[
                    profile.LevelLink("node", "mpi", 2e-6, 1e-10, 0.1),
                    profile.LevelLink("", "shm", 5e-7, 1e-10, 0),
                ],
                reduce_s_per_byte=1e-10,
                fits=[
                    profile.AlgorithmFit("all_reduce", "ring", -1, 4, 0, 2e-6, 1e-10, 0.1),
                    profile.AlgorithmFit("all_gather", "bruck", 1, 2, 4096, 2e-6, 1e-10, 0.1),
                ],
                overlaps=[profile.CollectiveOverlap("all_reduce", 0.5, 1, 1, 0.1)],
                measured={"at": "2026-01-01"},
            )
        ),
    }
)

GPU_PROFILE = json.dumps(
    {
        gpu_profile.FORMAT.mark: gpu_profile.FORMAT.version,
        **asdict(
            gpu_profile.GpuProfile(
                gpu_profile.GpuShape("0.1.0", "a cpu", "a gpu", 2),
                [
                    gpu_profile.EngineFit("all_reduce", "peer_kernel", False, 0, 7e-6, 3e-12, 0.01),
                    gpu_profile.EngineFit("all_reduce", "peer_two_shot", False, 4096, 1e-5, 2e-12, 0.01),
                    gpu_profile.EngineFit("all_reduce", "nccl", False, 0, 2e-5, 4e-12, 0.01),
                ],
                {"at": "2026-01-01"},
            )
        ),
    }
)

MODEL = json.dumps(
    {
        model.FORMAT.mark: model.FORMAT.version,
        **asdict(
            model.Model(
                Scope("a machine", "simulated", "2", 0, "", lanecast.__version__),
                [
                    constant("all_gather", ["hierarchical(ring,direct)", "mpi", "ring"]),
                    model.Trained(
                        "all_reduce", list(model.FEATURES), [1024, 1 << 20], [2, 8], ["folding", "one_shot"],
                        [[2, 8], [2, 4]], [1, 1], [15, 2, 0.5], [3.5, 1, 0.5], 0.5, [[-1, 0, 1], [1, 0.5, -1]],
                        [[1, -1]], [-0.25],
                    ),
                ],
                {"commit": "c"},
            )
        ),
    }
)  # fmt: skip

PINS = json.dumps(
    {
        "lanecast_pins": 1,
        "pins": [
            {"collective": "all_reduce", "bytes": [1024, 4096], "algorithm": "hierarchical(ring,direct)", "chunks": 4},
            {"collective": "all_gather", "algorithm": "ring"},
        ],
    }
)

SCOPE = json.dumps(asdict(Scope("a machine", "measured", "4x2", 2, "mpi,shm,shm", "0.1.0")), sort_keys=True)

SIMULATED = json.dumps({"seconds": 1e-3, "wrong_elements": 0, "wall_s": 2.5, "memory_MiB": 100})

SURPRISES = json.dumps(
    {
        "lanecast_surprises": 1,
        "shape": asdict(profile.Shape("0.1.0", "a cpu", 2, 1, "4", ["shm"])),
        "found": [asdict(Surprise("all_reduce", 4096, "ring", 1, 1e-5, 1e-4))],
    }
)
MACHINE = (Path(machines.__file__).parent / "frontier.toml").read_text()
MACHINE_VALUES = json.dumps(tomllib.loads(MACHINE))

LAYOUT = """
[[levels]]
name = "node"
domain = [0, 0, 1, 0, 1]
[[levels]]
name = "socket"
domain = [0, 1, 2, 1, 2]
"""
LAYOUT_VALUES = json.dumps(tomllib.loads(LAYOUT))

_CALL = {
    **{"type": "call", "sequence": 1, "collective": "all_reduce", "op": "sum", "dtype": "float32", "root": -1},
    **{"bytes": 4096, "algorithm": "ring", "chunks": 1, "state": "running", "begin_ns": 10**18, "end_ns": 0},
}
_MESSAGE = {
    **{"type": "message", "sequence": 1, "step": "send", "index": 0, "chunk": 0, "peer": 1, "level": 0},
    **{"transport": "mpi", "bytes": 4096, "begin_ns": 10**18, "end_ns": 10**18 + 9},
}
_OWNER = {
    **{"type": "communicator", "id": "00c0ffee00c0ffee", "rank": 0, "size": 4, "topology": "2x2", "levels": "node"},
    **{"transports": "mpi+shm", "host": "h", "pid": 7, "written_ns": 10**18 + 99, "waiting": "", "failure": ""},
}
_LAUNCH = {
    **{"type": "launch", "call": 1, "what": "composition 12 of 8 float32", "bytes": 32},
    **{"kernel": "lanecast_program_float32", "blocks": 1, "at_ns": 4},
}
TRACE = json.dumps([_OWNER, _CALL, _MESSAGE, _LAUNCH])


CLUSTER = marked_json.text(registry.FORMAT, registry.Entry(4711, "123456", Shape(hosts=3, nics=2)))


def from_file(name: str, read: Callable[[Path], Any]) -> Callable[[str], Any]:
    def read_text(text: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(text.encode().replace("é".encode(), b"\xe9"))  # a file need not be UTF-8
            return read(path)

    return read_text


MOUNTS = (
    "35 31 0:32 /docker/1 /cg/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
)


def read_memory_group(path: Path) -> str:
    """The same text as the group's limit, use and figures."""
    for name in ("memory.current", "memory.stat", "memory.swap.max", "memory.limit_in_bytes", "memory.usage_in_bytes"):
        path.with_name(name).write_bytes(path.read_bytes())
    return _core.memory_shortage(1, [str(path.parent)], "MemTotal: 9 kB\nMemAvailable: 9 kB\nSwapFree: 1 kB\n")


def read_cluster(path: Path) -> None:
    """As `lanecast cluster run` does, where the processes of the sample are there."""
    there = mock.patch.object(registry, "_started", lambda pid: "123456" if pid == 4711 else "")
    with there, mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(path.parent)}):
        (path.parent / "lanecast").mkdir()
        path.rename(path.parent / "lanecast" / "cluster-c.json")
        if (cluster := registry.find("c")) is not None:
            str(cluster.shape)


def read_programs(text: str) -> None:
    """As a program that loads programs from a file would: look at them, and export them again."""
    found = programs_from_json(text)
    for program in found:
        str(program)
    programs_to_json(found)


def read_plans(text: str) -> None:
    """As a program that loads a plan from a file would: look at it, then have it proven."""
    plans, topology = from_json(text)
    str(topology)
    for plan in plans:
        str(plan)
        plan.to_dict()
        for step in range(min(len(plan), 100)):
            plan.describe(step)
    with contextlib.suppress(lanecast.PlanError):
        _core.verify(plans)


def read_profile(path: Path) -> None:
    """As a communicator of 2 nodes of 2 ranks would: it has checked the shape, and chooses by the models."""
    models = profile.load(path).models()
    if len(models.links) == 2:
        for collective in _core.KINDS:
            _core.candidates(collective, 4096, _core.Topology.parse("2x2", 4), models)


def read_gpu_profile(path: Path) -> None:
    """As a communicator of 2 ranks would once their GPUs are known."""
    lines = gpu_profile.load(path).lines()
    for collective in _core.KINDS:
        _core.explain_on_peers(collective, 4096, 2, True, lines)


def read_model(path: Path) -> None:
    """As a communicator of 2 nodes of 2 ranks would: it has checked the scope, and asks the model first."""
    learned = model.load(path).learned()
    topology = _core.Topology.parse("2x2", 4)
    models = _core.Models([(1e-6, 1e-9), (1e-6, 1e-9)]).with_learned(learned)
    for collective in _core.KINDS:
        _core.explain(collective, 4096, topology, models)


def read_pins(path: Path) -> None:
    """As a communicator does before it chooses by them."""
    _core.read_pins(path.read_bytes())


def read_times(text: str) -> None:
    """As training does, where a run's scope and software are this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "times.sqlite"
        with Database(path, create=True):
            pass
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO runs (scope, software) VALUES (?, ?)", (text, text))
            connection.commit()
        with Database(path) as database:
            for scope in database.scopes():
                database.read(scope)
                database.software(scope)


def read_file_of_times(path: Path) -> None:
    with Database(path) as database:
        database.scopes()


@functools.cache
def times_bytes() -> bytes:
    """Of a database with one configuration."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "times.sqlite"
        with Database(path, create=True) as database:
            run = database.add_run(Scope(**json.loads(SCOPE)), {"commit": "c"})
            database.add(run, Configuration("all_reduce", 8, 4096), [Timed("ring", 1, None, (1e-5, 2e-5))])
        return path.read_bytes()


def read_damaged_times(text: str) -> None:
    """As training does, where bytes of a database are others, and it may end there: "16=20 00", "5000=" in hex."""
    place, _, found = text.partition("=")
    try:
        begin, damage = int(place) % len(times_bytes()), bytes.fromhex(found)
    except ValueError:
        return
    whole = bytearray(times_bytes())
    whole[begin : begin + len(damage) if damage else None] = damage
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "times.sqlite"
        path.write_bytes(whole)
        with Database(path) as database:
            for scope in database.scopes():
                database.read(scope)
                database.software(scope)


def find_profile(text: str) -> None:
    """As every communicator would for LANECAST_PROFILE."""
    lanecast.run_threads(2, lambda comm: comm.size, profile=text)


def read_machine(path: Path) -> None:
    machine = machines.load(str(path))
    _ = machine.nic_efficiency
    with contextlib.suppress(lanecast.UsageError):  # 16 ranks fill no such nodes
        machines.topology_text(f"{machines.PREFIX}{path}", 16)


def read_machine_values(text: str) -> None:
    """A machine whose values, given as JSON, were damaged."""
    from_file("machine.toml", read_machine)(_as_toml(text))


def read_layout(path: Path) -> None:
    topology = topologies.load(str(path))
    assert topologies.parse(str(path), topology.size).levels == topology.levels
    _core.make_plans("all_gather", topology, "ring")


def read_layout_values(text: str) -> None:
    """A layout whose values, given as JSON, were damaged."""
    from_file("layout.toml", read_layout)(_as_toml(text))


def _as_toml(text: str) -> str:
    """The same values in TOML, where they are named; else the text as it is."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(values := json.loads(text), dict):
            return "\n".join(f"{json.dumps(name)} = {_toml(value)}" for name, value in values.items())
    return text


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False).lower() if isinstance(value, float) else json.dumps(value)


def read_trace(text: str) -> None:
    """As `lanecast trace` does. The records of a list that is JSON are a line each."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(records := json.loads(text), list):
            text = "\n".join(json.dumps(record) for record in records)
    from_file("c.rank0.jsonl", _report)(text)


def _report(path: Path) -> None:
    for job in traces.read(path.parent):
        traces.report(job)
