# SPDX-License-Identifier: Apache-2.0
"""LANECAST_TORCH=1 and `python -m lanecast.torch run`: programs that do not know Lanecast get it, under the names that
they ask for, or go on with their own backend."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_jobs import free_port, rank_environment

SCRIPT = Path(__file__).parent / "torch_takeover.py"
RUN = [sys.executable, "-m", "lanecast.torch", "run"]


class Ran:
    """What the ranks of such a program have found, and what Lanecast has said to each."""

    def __init__(self, size: int, folder: Path, asked: list[str | None], *, change: str = "", **of_rank: Any) -> None:
        """of_rank: variables; a list has one value for each rank."""
        folder.mkdir(exist_ok=True)
        port = free_port()
        ranks = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), str(folder), json.dumps(asked), change], text=True,
                env=rank_environment(rank, size, port) | {
                    name: value if isinstance(value, str) else value[rank] for name, value in of_rank.items()
                },
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in range(size)
        ]  # fmt: skip
        texts = [rank.communicate(timeout=240) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * size, texts
        self.found: list[dict[str, dict[str, Any]]] = [json.loads(out.splitlines()[-1]) for out, _ in texts]
        self.said = [[line for line in err.splitlines() if line.startswith("lanecast")] for _, err in texts]

    def by_lanecast(self) -> list[set[str]]:
        return [{each for facts in found.values() for each in facts.pop("by Lanecast")} for found in self.found]


def test_names_and_results_are_those_of_gloo(tmp_path: Path) -> None:
    asked = ["gloo", None, "cpu:gloo"]
    plain = Ran(3, tmp_path / "plain", asked, LANECAST_TORCH="0")
    taken = Ran(3, tmp_path / "taken", asked, LANECAST_TORCH="1")
    assert plain.by_lanecast() == [set()] * 3
    everywhere = {"world", "like it", "gloo", "some", "mesh"}
    assert taken.by_lanecast() == [everywhere, everywhere - {"some"}, everywhere]
    for found in plain.found:  # torch 2.13 has no name for a group that is described by devices
        for each in everywhere & found["cpu:gloo"].keys():
            facts = found["cpu:gloo"][each]
            facts[2:4] = ["gloo", "gloo"] if facts[2] == "undefined" else facts[2:4]
    assert taken.found == plain.found
    (first, *more), *others = taken.said
    assert first == "lanecast: the groups of this job, which asks for gloo, are Lanecast's; LANECAST_TORCH=0 goes back"
    assert (len(more), others) == (2, [[], []]), "once for each name, by rank 0"
    assert plain.said == [[], [], []]


def test_those_that_ask_for_nccl(tmp_path: Path) -> None:
    """On a torch that has it, as it says; a group for GPUs alone takes no tensors of the CPU."""
    (found,) = Ran(1, tmp_path, ["nccl", "cpu:gloo,cuda:nccl"], change="with-nccl", LANECAST_TORCH="1").found
    assert found["nccl"]["world"] == ["nccl", "cuda:nccl", "nccl", "nccl", ["cuda"]]
    both = ["cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl", "nccl", "nccl", ["cpu", "cuda"]]
    assert found["cpu:gloo,cuda:nccl"]["world"] == both
    assert all("world" in facts["by Lanecast"] for facts in found.values())


NO_ADAPTER = {"CXX": ["", "/no/compiler"], "XDG_CACHE_HOME": [os.environ.get("XDG_CACHE_HOME", ""), "/proc"]}


@pytest.mark.parametrize(
    ("change", "variables", "why"),
    [
        ("", {"LANECAST_TORCH": "yes"}, "LANECAST_TORCH=yes has no effect, .*: the values are 0 and 1"),
        ("as-old-torch", {}, "LANECAST_TORCH=1 has no effect, .*: torch 2.10.1 is older than 2.11"),
        ("", NO_ADAPTER | {"TMPDIR": ["/tmp", "/proc"]}, "rank 1: .*needs a C.*compiler, and CXX=/no/compiler"),
        ("", {"LANECAST_TOPOLOGY": "7x9"}, "rank 0: .*63 ranks"),
    ],
)
def test_a_rank_that_cannot_has_all_go_on_with_gloo(
    change: str, variables: dict[str, Any], why: str, tmp_path: Path
) -> None:
    ran = Ran(2, tmp_path, ["gloo"], change=change, **{"LANECAST_TORCH": "1", **variables})
    assert ran.by_lanecast() == [set(), set()]
    assert [found["gloo"]["world"][0] for found in ran.found] == ["gloo", "gloo"]
    (line,), others = ran.said
    assert others == []
    assert re.search(why, line), line


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LANECAST_TORCH"} | variables
    return subprocess.run(
        command, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )


PROGRAM = """
import sys, torch, beside
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
line = f"{dist.get_rank()} {type(backend).__module__} {__name__} {sys.argv[1:]}"
sys.stdout.write(line + chr(10))  # in one write: ranks share a pipe
dist.destroy_process_group()
"""


@pytest.mark.parametrize("value", ["", "0"])
def test_a_program_is_run_under_torchrun(value: str, tmp_path: Path) -> None:
    """Also where torch loads no plug-ins; what lies beside the program is imported as ever."""
    (tmp_path / "beside.py").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    given = {"LANECAST_TORCH": value} if value else {}
    done = run(
        [*torchrun, "-m", "lanecast.torch", "run", str(tmp_path / "program.py"), "-m", "x"],
        TORCH_DEVICE_BACKEND_AUTOLOAD="0", **given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    module = "torch.distributed.distributed_c10d" if value else "lanecast_c10d"
    assert sorted(done.stdout.splitlines()) == [f"{rank} {module} __main__ ['-m', 'x']" for rank in range(2)]
    assert done.stderr.count("are Lanecast's; LANECAST_TORCH=0 goes back") == (0 if value else 1)


def test_a_program_that_is_not_there() -> None:
    for arguments, why in (
        (["nowhere.py"], "nowhere.py: there is no such file"),
        ([], "usage: python -m lanecast.torch"),
    ):
        done = run([*RUN, *arguments])
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
    asked = run([*RUN[:-1], "--help"])
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith("usage: python -m lanecast.torch")


def test_nothing_is_replaced_where_the_variable_is_not_set() -> None:
    look = "import sys, torch; print([name for name in sys.modules if name.startswith('lanecast')])"
    assert run([sys.executable, "-c", look]).stdout == (
        "['lanecast_torch', 'lanecast_torch.monitored_barrier', 'lanecast_torch.set_timeout']\n"
    )


def test_info_says_how_to_go_back() -> None:
    info = [sys.executable, "-m", "lanecast", "info"]
    assert "LANECAST_TORCH=1 gives it to programs that ask for nccl, gloo or nothing" in " ".join(
        run(info).stdout.split()
    )
    taken = " ".join(run(info, LANECAST_TORCH="1").stdout.split())
    assert (
        "LANECAST_TORCH=1: programs that ask for nccl, gloo or nothing get it, too; LANECAST_TORCH=0 goes back" in taken
    )
    wrong = " ".join(run(info, LANECAST_TORCH="yes").stdout.split())
    assert "LANECAST_TORCH=yes has no effect: the values are 0 and 1" in wrong


OF_ACCELERATE = ["test_script", "test_ops", "test_sync"]


@pytest.mark.long
@pytest.mark.parametrize("name", OF_ACCELERATE)
def test_programs_of_accelerate_print_the_same(name: str) -> None:
    """Those that its package brings along to try an installation, as they are."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    command = [*torchrun, "-m", f"accelerate.test_utils.scripts.{name}"]
    printed = []
    for value in ("0", "1"):
        done = run(command, LANECAST_TORCH=value, ACCELERATE_USE_CPU="1")
        assert done.returncode == 0, done.stderr[-3000:]
        # Those of two ranks, in any order, whose ends may stand apart; without a log with the time of day.
        lines = [re.sub(r"\d+\.\d+ ?m?s\b", "", line) for line in done.stdout.splitlines()]
        printed.append(sorted(line for line in lines if line and not re.match(r"\[\d{4}-", line)))
        assert ("are Lanecast's" in done.stderr) == (value == "1")
    assert printed[1] == printed[0]


def test_a_group_imports_nothing_that_it_does_not_need() -> None:
    """Its import took longer than all else that makes a first group."""
    program = """
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
x = torch.ones(3)
dist.all_reduce(x)
assert type(dist.group.WORLD._get_backend(torch.device("cpu"))).__module__ == "lanecast_c10d"
print(*sorted(name for name in sys.modules if name.startswith("lanecast.")))
dist.destroy_process_group()
"""
    environment = {name: value for name, value in os.environ.items() if name != "LANECAST_PROFILE"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment | {"LANECAST_TORCH": "1"},
                           capture_output=True, text=True, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    of_the_host = {"cache", "compiler", "emulation", "gpu_libraries", "job", "nics", "wording", "_core"}
    of_torch = {"torch", "torch.adapter", "torch.compiling", "torch.groups", "torch.memory"}
    assert {name.removeprefix("lanecast.") for name in ended.stdout.split()} <= of_the_host | of_torch
