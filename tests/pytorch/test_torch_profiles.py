# SPDX-License-Identifier: Apache-2.0
"""A group chooses by what was measured: named in its options or the environment, and by rank 0's word."""

from collections.abc import Callable
from pathlib import Path

from torch_jobs import Job


def test_a_group_chooses_by_its_profile(job: Callable[[int], Job], tmp_path: Path) -> None:
    ranks = job(2)
    for fastest in ("ring", "direct"):
        ranks.run("torch_profiles", "write", str(tmp_path / f"{fastest}.json"), fastest)
    ring, direct = str(tmp_path / "ring.json"), str(tmp_path / "direct.json")
    taken = [
        ranks.run("torch_profiles", "taken_with", profile, variable, str(tmp_path / str(k)))
        for k, (profile, variable) in enumerate([(ring, "none"), ("", direct), (ring, direct)])
    ]
    assert taken == [["ring"] * 2, ["direct"] * 2, ["ring"] * 2]
