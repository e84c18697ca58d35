# SPDX-License-Identifier: Apache-2.0
"""Which NICs a rank of a host takes."""

import os
import sys
from functools import partial

import pytest

import lanecast
from lanecast import job, nics
from lanecast.nics import own_of

FOUR = ("eth0", "eth1", "eth2", "eth3")


@pytest.mark.parametrize(
    ("how", "ranks", "expected"),
    [
        ("packed", 1, [FOUR]),
        ("packed", 2, [FOUR[:2], FOUR[2:]]),
        ("round_robin", 2, [FOUR[::2], FOUR[1::2]]),
        ("packed", 3, [FOUR[:2], FOUR[2:3], FOUR[3:]]),
        ("one_to_one", 4, [(nic,) for nic in FOUR]),
        ("packed", 8, [(nic,) for nic in FOUR for _ in range(2)]),
        ("round_robin", 8, [(nic,) for nic in FOUR * 2]),
    ],
)
def test_own(how: str, ranks: int, expected: list[tuple[str, ...]]) -> None:
    assert [own_of(FOUR, how, place, ranks) for place in range(ranks)] == expected


SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NNODES": "2"}
FLUX = {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "8", "FLUX_TASK_LOCAL_ID": "3", "FLUX_JOB_NNODES": "2"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (1, 2)),
        (
            {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            (1, 2),
        ),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "5,3", "SLURM_NODEID": "1"}, (1, 3)),
        (SRUN, (1, 4)),
        ({**SRUN, "SLURM_NNODES": "3"}, None),
        (FLUX, (3, 4)),
        ({**FLUX, "FLUX_TASK_LOCAL_ID": "4"}, None),  # so they are not dealt out evenly
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"}, (1, 2)),
        ({"PMIX_RANK": "3", "PMIX_LOCAL_RANK": "1"}, None),
        ({}, None),
    ],
)
def test_place_by_launcher(environment: dict[str, str], place: tuple[int, int] | None) -> None:
    assert nics.place_of(job.detect(environment)) == place


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "no launcher says which"),
        ({"PMIX_RANK": "3"}, "a launcher with PMIx does not say which of its host's ranks"),
    ],
)
def test_what_is_missing_is_said(environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "detect", partial(job.detect, environment))
    monkeypatch.setenv("LANECAST_NICS", "lo")
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    assert said in str(nics.pin.__wrapped__())


@pytest.mark.parametrize("text", ["lo:spiral", "lo:1", "lo:", "lo:packed:packed"])
def test_what_is_no_map_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_NICS", text)
    with pytest.raises(lanecast.UsageError, match="is no map; known: packed, round_robin, one_to_one"):
        nics.pin.__wrapped__()


def test_srun_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**SRUN, "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_NODEID": "1"}
    monkeypatch.setattr(os, "environ", {"LANECAST_NICS": "lo", **environment})
    monkeypatch.setattr(job, "detect", partial(job.detect, environment))
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    pinned = nics.pin.__wrapped__()
    assert (pinned.nic, os.environ["UCX_NET_DEVICES"]) == ("lo", "lo")


def test_helpers_of_a_leader_with_several_nics_at_once_have_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_NICS", "a,b")
    assert nics.variables_of_helper(1, 2, leader_has=2) == {"LANECAST_UCX_LANES": "2"}
    assert nics.variables_of_helper(1, 2, leader_has=1)["UCX_NET_DEVICES"] == "b"
    monkeypatch.delenv("LANECAST_NICS")
    assert nics.variables_of_helper(1, 2, leader_has=1) == {}


def test_one_to_one_with_too_few_ranks() -> None:
    with pytest.raises(lanecast.UsageError, match="one-to-one needs as many NICs as ranks"):
        own_of(FOUR, "one_to_one", 0, 2)


def test_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_NICS", "lo:one_to_one")
    for name, value in {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with pytest.raises(lanecast.UsageError, match="LANECAST_NICS: nics: one-to-one needs as many NICs as ranks"):
        nics.pin.__wrapped__()
