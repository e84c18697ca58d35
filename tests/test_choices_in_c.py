# SPDX-License-Identifier: Apache-2.0
"""Programs in C choose by the same profiles and models as those in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lanecast import _core
from lanecast.profiles import finding, save
from lanecast.profiles import model as models
from lanecast.profiles.model import save as save_model
from lanecast.profiles.profile import Shape, file_name
from lanecast.profiles.scope import scope_of
from launch import ROOT, compiled, mpich
from learned_models import constant, model
from test_tune import profile_for, shape_here

RANKS = 4


def shape_under_mpi() -> Shape:
    return replace(shape_here("4", RANKS), transports=["shm"])


def choices(folder: Path, settings: Sequence[str], cache: Path) -> list[str]:
    """What each communicator took for its all-gather, or why it could not be made."""
    program = compiled(ROOT / "tests/c/choices.c", folder)
    traces = folder / "traces"
    for k in range(len(settings)):
        (traces / str(k)).mkdir(parents=True)
    lines = mpich(RANKS, [str(program), str(traces), *settings], XDG_CACHE_HOME=str(cache)).splitlines()
    assert len(lines) == len(settings), lines
    found: list[str] = []
    for k, line in enumerate(lines):
        if line == "made":
            written = [path.read_text() for path in (traces / str(k)).glob("*.jsonl")]
            algorithms = {re.findall('"algorithm": ?"([^"]+)"', text)[-1] for text in written}
            assert (len(written), len(algorithms)) == (RANKS, 1), (settings[k], algorithms)
            found += algorithms
        else:
            found.append(line)
    return found


def test_profiles_and_models_wherever_they_are_named(tmp_path: Path) -> None:
    shape = shape_under_mpi()
    cache = tmp_path / "cache" / "lanecast" / "profiles"
    save(profile_for(shape, "bruck"), tmp_path / "bruck.json")
    save(profile_for(shape, "direct"), tmp_path / "folder" / file_name(shape))
    save(profile_for(shape, "ring"), cache / file_name(shape))
    other = replace(shape, hosts=2)
    save(profile_for(other, "direct"), cache / file_name(other))
    save(profile_for(other, "direct"), tmp_path / "other.json")
    learned = replace(model(constant("all_gather", ["bruck", "direct", "ring"], fastest=1)), scope=scope_of(shape))
    save_model(learned, tmp_path / "learned" / models.file_name(learned.scope))
    (tmp_path / "damaged.json").write_text((tmp_path / "bruck.json").read_text().replace("1e-06", '"fast"', 1))
    settings = {
        "cache": "ring",
        f"config={tmp_path / 'bruck.json'}": "bruck",
        f"environment={tmp_path / 'bruck.json'}": "bruck",
        f"environment={tmp_path / 'folder'}": "direct",
        f"environment={tmp_path / 'learned'},{tmp_path / 'bruck.json'}": "direct",
        f"config={tmp_path / 'bruck.json'},{cache}": "profile .*: is the second of its kind",
        f"config={tmp_path / 'damaged.json'}": r'profile .*damaged.json: fits\[0\].alpha_s: "fast" is no number',
        f"config={tmp_path / 'other.json'}": r"profile .*other.json: was measured elsewhere \(hosts: 2, not 1\)",
        "config=/nowhere.json": "profile /nowhere.json: No such file",
        "config=machine:frontier": "profile machine:frontier: .*name the file",
    }
    found = choices(tmp_path, list(settings), tmp_path / "cache")
    for (setting, expected), got in zip(settings.items(), found, strict=True):
        assert re.match(expected, got), (setting, got)


@pytest.mark.long
def test_damaged_files_in_the_cache_are_left_aside(tmp_path: Path) -> None:
    shape = shape_under_mpi()
    path = tmp_path / "lanecast" / "profiles" / file_name(shape)
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert choices(tmp_path, ["cache", "config=none"], tmp_path)[0] in _core.algorithms_for(
        "all_gather", _core.Topology(4)
    )


def test_names_that_only_python_knows_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(finding.VARIABLE, "machine:frontier,/a")
    assert finding.written_out("") == f"{models.shipped()['frontier']},/a"
    assert finding.written_out("none") == "none"
    assert finding.written_out("machine:nowhere") == "machine:nowhere"
