# SPDX-License-Identifier: Apache-2.0
"""Whatever text, file or variable the library reads: it is understood, or refused by the error that the docs name.

Never another exception, a crash, a hang, or memory out of proportion. A new format is one more row of PARSERS.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import file_formats as formats
import lanecast
from lanecast import _core, job, nics
from lanecast.bench import options
from lanecast.bench.settings import parse_backend
from lanecast.profiles import surprises
from lanecast.scale import contenders, point

LIMIT_BYTES = 1 << 29  # beyond what the process has; what is read below is small
TEXTS = int(os.environ.get("FUZZ_TEXTS", "20000"))  # of the long campaign, for each row
WRONG_VALUES: tuple[Any, ...] = (
    *(-1, 0, 2**31 - 1, 2**31, 2**63, 10**400, 1e308, float("nan"), None, True, [], {}, "", "\ud800"),
)
PLACES = 100  # of a sample in which each value is replaced in turn
LIMIT_S = 5.0  # of processor time, for one text


def with_variable(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        with mock.patch.dict(os.environ, {name: text}):
            return lanecast.run_threads(1, lambda comm: comm.chosen("all_reduce", 8))

    return read


def open_mpi_library(text: str) -> None:
    with mock.patch.dict(os.environ, {"LANECAST_MPI_LIBRARY": text}):
        _core.load_mpi([])


def plan_of(collective: str) -> Callable[[str], Any]:
    return lambda text: _core.make_plan(collective, 1, _core.Topology.parse("2x3", 6), text)


def tasks_of_hosts(text: str) -> None:
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_NODEID": "1"}
    job.detect({**step, "SLURM_TASKS_PER_NODE": text})


def numbers_of_a_launcher(text: str) -> None:
    rank = {"TORCHELASTIC_RUN_ID": "id", "RANK": text, "WORLD_SIZE": text, "LOCAL_RANK": text, "LOCAL_WORLD_SIZE": text}
    found = job.detect(rank)
    str(found)
    nics.place_of(found)


def named_nics(text: str) -> None:
    there, how = nics.parse(text)
    nics.check(there)
    for place in range(2):
        if there:
            nics.own_of(there, how, place, 2)


@dataclass(frozen=True)
class Parser:
    read: Callable[[str], Any]
    samples: tuple[str, ...]  # that it takes; random texts are made from pieces of them
    refusals: tuple[type[Exception], ...] = (lanecast.UsageError,)


ALGORITHMS = ("ring", "hierarchical(ring,direct)", "hierarchical(bruck,mpi)", "one_shot", "folding")
TOPOLOGIES = ("8", "2x4", "2x2x2:cyclic", "3+1+4", "1+7:block", "1x8x1", "2147483647", "65536x65536", "no/file.toml")

PARSERS = {
    "topology": Parser(lambda text: str(_core.Topology.parse(text, 8)), TOPOLOGIES),
    "topology on the command line": Parser(
        lambda text: str(options.topology_for(text, options.ranks_of(text))), TOPOLOGIES
    ),
    "algorithm of an all-reduce": Parser(plan_of("all_reduce"), ALGORITHMS),
    "algorithm of an all-gather": Parser(plan_of("all_gather"), ALGORITHMS),
    "sizes": Parser(options.parse_sizes, ("64K", "1,2,3", "4KiB..1G", "512..513,7b", "1G..1000000G")),
    "backend": Parser(parse_backend, ("lanecast", "lanecast:hierarchical(ring,direct)", "lanecast:mpi", "mpi")),
    "dtype": Parser(options.parse_dtype, ("float32", "bfloat16", "int8")),
    "LANECAST_TOPOLOGY": Parser(with_variable("LANECAST_TOPOLOGY"), ("1", "1x1", "1x1:cyclic", "2x4")),
    "LANECAST_TRANSPORTS": Parser(with_variable("LANECAST_TRANSPORTS"), ("loopback", "loopback,loopback", "mpi,shm")),
    "LANECAST_ALGORITHM": Parser(with_variable("LANECAST_ALGORITHM"), ALGORITHMS),
    "LANECAST_CHUNKS": Parser(with_variable("LANECAST_CHUNKS"), ("1", "16", "4294967297", "-1")),
    "LANECAST_TIMEOUT": Parser(with_variable("LANECAST_TIMEOUT"), ("300", "0.5", "1e9", "inf", "nan", "-0")),
    "LANECAST_REPRODUCIBLE": Parser(with_variable("LANECAST_REPRODUCIBLE"), ("1", "false")),
    "LANECAST_CHECK_CALLS": Parser(with_variable("LANECAST_CHECK_CALLS"), ("0", "true")),
    "LANECAST_TRACE_STEPS": Parser(with_variable("LANECAST_TRACE_STEPS"), ("0", "1")),
    "LANECAST_ALLOW_SHARED_GPU": Parser(with_variable("LANECAST_ALLOW_SHARED_GPU"), ("0", "1")),
    "LANECAST_MAX_CTAS": Parser(with_variable("LANECAST_MAX_CTAS"), ("24", "0", "2147483648")),
    "LANECAST_UCX_LANES": Parser(with_variable("LANECAST_UCX_LANES"), ("0", "2", "65")),
    "LANECAST_GPU_MESSAGES": Parser(with_variable("LANECAST_GPU_MESSAGES"), ("staged", "direct")),
    "LANECAST_LINKS": Parser(with_variable("LANECAST_LINKS"), ("measure", "assume", "12us,50GBps", "0.5ms,10gbit")),
    "LANECAST_NICS": Parser(named_nics, ("lo", "lo,lo:one_to_one", "lo:round_robin", "eth0, mlx5_0:1")),
    "LANECAST_HOST": Parser(with_variable("LANECAST_HOST"), ("node1", "")),
    "LANECAST_ and anything": Parser(
        lambda text: with_variable("LANECAST_" + text.replace("=", ""))("1"),  # no name holds one
        ("TIMEOUT", "TIMEUOT"),
    ),
    "LANECAST_MPI_LIBRARY": Parser(
        open_mpi_library, ("libmpi.so.12", "/lib/libmpi.so"), (lanecast.UsageError, lanecast.TransportError)
    ),
    "plans as JSON": Parser(formats.read_plans, formats.PLANS),
    "programs as JSON": Parser(formats.read_programs, formats.PROGRAMS),
    "pins": Parser(formats.from_file("pins.json", formats.read_pins), (formats.PINS,)),
    "profile": Parser(formats.from_file("profile.json", formats.read_profile), (formats.PROFILE,)),
    "GPU profile": Parser(formats.from_file("gpu.json", formats.read_gpu_profile), (formats.GPU_PROFILE,)),
    "surprises": Parser(formats.from_file("surprises.json", surprises.load), (formats.SURPRISES,)),
    "model": Parser(formats.from_file("model.json", formats.read_model), (formats.MODEL,)),
    "scope of times": Parser(formats.read_times, (formats.SCOPE,)),
    "database of times": Parser(
        formats.from_file("times.sqlite", formats.read_file_of_times), ("SQLite format 3", "no database")
    ),
    "damaged database of times": Parser(
        formats.read_damaged_times,
        ("16=20 00", "100=0d05", "4096=", "24=ffffffff", "8100=41", "12200=0102"),
    ),
    "kept outcome of a simulation": Parser(point.read, (formats.SIMULATED,), (ValueError,)),
    "LANECAST_PROFILE": Parser(formats.find_profile, ("none", "", ".", "/", ".,none", "machine:frontier")),
    "machine": Parser(formats.from_file("machine.toml", formats.read_machine), (formats.MACHINE,)),
    "layout": Parser(formats.from_file("layout.toml", formats.read_layout), (formats.LAYOUT,)),
    "layout's values": Parser(formats.read_layout_values, (formats.LAYOUT_VALUES,)),
    "backend of a simulation": Parser(contenders.check, ("flat", "ompi", "lanecast:hierarchical(ring,direct)")),
    "machine's values": Parser(formats.read_machine_values, (formats.MACHINE_VALUES,)),
    "tasks of Slurm's hosts": Parser(tasks_of_hosts, ("4(x2)", "5,3", "2(x3),1(x2)")),
    "numbers of a launcher": Parser(numbers_of_a_launcher, ("0", "1", "8", "-1", "2147483648")),
    "cluster": Parser(formats.from_file("cluster.json", formats.read_cluster), (formats.CLUSTER,)),
    "trace": Parser(formats.read_trace, (formats.TRACE,)),
    "control groups of a process": Parser(
        lambda text: _core.memory_groups(text, formats.MOUNTS), ("0::/a/b", "3:cpu:/x\n4:memory:/docker/1\n0::/")
    ),
    "mounts": Parser(lambda text: _core.memory_groups("4:memory:/docker/1\n0::/a", text), (formats.MOUNTS,)),
    "memory of a host": Parser(
        lambda text: _core.memory_shortage(1, [], text), ("MemTotal:  9 kB\nMemAvailable: 5 kB\nSwapFree: 0 kB\n",)
    ),
    "limit of a control group": Parser(
        formats.from_file("memory.max", formats.read_memory_group), ("max\n", "0\n", "68719476736\n")
    ),
}

PIECES = (
    *("0", "1", "-1", "007", "2147483648", "99999999999999999999", "9" * 400, "9" * 5000),
    *("1" + "x1" * 500, "1" + "+1" * 500, "[" * 5000, '{"a":' * 5000, "a=" + "[" * 5000, "null", "NaN", "\r"),
    *("x", "+", ":", ",", "..", "(", ")", "((", "=", "-", ".", "e9", "inf", "nan", "0x10", "K", "cyclic", "ring"),
    *("hierarchical(", "hierarchical(ring,ring,ring)", " ", "\t", "\n", "é", "٣", "²", "\N{BYTE ORDER MARK}", "\x7f"),
)


@st.composite
def texts_near(draw: st.DrawFn, samples: tuple[str, ...]) -> str:
    """A sample with some pieces cut out, repeated, or replaced."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        end = min(end, begin + 20)
        middle = draw(st.one_of(st.sampled_from(PIECES), st.just(2 * text[begin:end]), st.just("")))
        text = text[:begin] + middle + text[end:]
    return text


# What an environment can hold, and a file in UTF-8.
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
numbers = st.one_of(st.integers(-3, 9), st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**64, 10**400]))
values = st.one_of(numbers, st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.just([]), st.just({}))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@st.composite
def damaged_json(draw: st.DrawFn, samples: tuple[str, ...]) -> str:
    """A sample in which some values have been replaced, dropped, or swapped with others."""
    value = json.loads(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(list(places(value)) or [([0], 0)]))
        what = draw(st.sampled_from(["replace", "drop", "other", "nudge"]))
        if what == "drop":
            del container[key]
        elif what == "other":
            other, its_key = draw(st.sampled_from(list(places(value))))
            container[key] = json.loads(json.dumps(other[its_key]))
        elif what == "nudge" and isinstance(container[key], int):
            container[key] += draw(st.integers(-2, 2))
        else:
            container[key] = draw(values)
    return json.dumps(value)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Whatever wants much more memory than the process has now gets a MemoryError, which is no refusal."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    if "san.so" not in os.environ.get("LD_PRELOAD", ""):  # a sanitizer reserves terabytes
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def texts_for(parser: Parser) -> st.SearchStrategy[str]:
    near = [texts_near(parser.samples), st.one_of(any_text, st.sampled_from(PIECES))]
    is_json = parser.samples[0].startswith(("[", "{"))
    return st.one_of(*near, *[damaged_json(parser.samples)] * 3 * is_json)


def try_to_read(parser: Parser, text: str) -> None:
    begin = time.thread_time()
    with contextlib.suppress(*parser.refusals):
        parser.read(text)
    assert time.thread_time() - begin < LIMIT_S


fixture_is_fine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.parametrize("name", PARSERS)
def test_samples_are_read_or_refused(name: str, little_memory: None) -> None:
    for sample in PARSERS[name].samples:
        try_to_read(PARSERS[name], sample)


@pytest.mark.parametrize("name", PARSERS)
@settings(fixture_is_fine)
@given(data=st.data())
def test_any_text_is_read_or_refused(name: str, little_memory: None, data: st.DataObject) -> None:
    try_to_read(PARSERS[name], data.draw(texts_for(PARSERS[name])))


@pytest.mark.parametrize("name", [name for name, parser in PARSERS.items() if parser.samples[0].startswith(("[", "{"))])
def test_each_value_may_be_wrong(name: str, little_memory: None) -> None:
    parser = PARSERS[name]
    value = json.loads(parser.samples[0])
    for container, key in list(places(value))[:PLACES]:
        right = container[key]
        for wrong in WRONG_VALUES:
            container[key] = wrong
            try_to_read(parser, json.dumps(value))
        container[key] = right


@pytest.mark.long
@pytest.mark.parametrize("name", PARSERS)
@settings(fixture_is_fine, max_examples=TEXTS)
@given(data=st.data())
def test_many_texts_are_read_or_refused(name: str, little_memory: None, data: st.DataObject) -> None:
    try_to_read(PARSERS[name], data.draw(texts_for(PARSERS[name])))
