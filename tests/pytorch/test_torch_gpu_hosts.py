# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_hosts.py from end to end, and training on emulated hosts, with a CPU in the place of GPUs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lanecast
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape

sys.path.append(str(Path(__file__).parent.parent.parent / "bench"))

import gpu_hosts
import gpu_report
import gpu_steps
from timed_steps import Outcome

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module", autouse=True)
def _needs_hosts() -> None:
    try:
        Cluster.start(Shape(hosts=2, nics=1)).stop()
    except lanecast.TransportError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.timeout(300)  # six jobs, each of which imports torch on every rank
def test_each_part_leaves_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_steps, "LANECAST", (sys.executable, str(ROOT / "tests/gpu_stand_in_cli.py")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    asked = gpu_steps.Asked(2, "1K,1M", "64K", ("bfloat16",), rounds=1, rate="1gbit")
    outcomes: list[Outcome] = []
    for outcome in gpu_hosts.measure(gpu_hosts.steps(asked, ["cluster", "host"]), limit_s=300):
        outcomes.append(outcome)
        gpu_hosts.write(outcomes, tmp_path / "rows.json", tmp_path / "page.md")
    assert [outcome.summary for outcome in outcomes] == ["done"] * 6
    found = json.loads((tmp_path / "rows.json").read_text())
    counts = {part: sum(row["part"] == part for row in found["rows"]) for part in ("host", "cluster", "shared GPUs")}
    assert counts == {"host": 8 * 2 * 3 * 2, "cluster": 3 * 2, "shared GPUs": 3 + 2 * 3}
    assert not any(row["wrong"] for row in found["rows"])
    page = (tmp_path / "page.md").read_text()
    assert "| all_gather, plain, eager | **" in page
    assert "2x1 (hosts x GPUs), bf16; goodput of a host 0." in page
    assert "2x2: hosts share GPUs" in page
    assert "2x1x2: hosts share GPUs" in page
    drawn = list(gpu_report.draw(found["rows"], tmp_path / "host.png", tmp_path / "hosts.png"))
    assert all(path.stat().st_size > 10_000 for path in drawn)
    assert len(drawn) == 2


@pytest.mark.long
def test_training_on_two_hosts(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    small = ("--trials=1", "--batch-tokens=512", "--micro-batch=1", "--strategies=fsdp2", "--rate=1gbit")
    options = ("--hosts=2", "--ranks=2", "--backends=lanecast:ring,lanecast", "--json", str(file))
    subprocess.run([sys.executable, "-m", "lanecast", "bench", "train", *small, *options], check=True, timeout=240)
    ours, theirs = json.loads(file.read_text())["rows"]
    assert (ours["ranks"], ours["loss_apart"], theirs["times_as_fast"]) == (2, 0, 1.0)
