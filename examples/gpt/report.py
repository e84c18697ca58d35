# SPDX-License-Identifier: Apache-2.0
"""What a run has shown: figures in JSON, the loss and the sizes of messages as pictures."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WARM_UP = 2  # steps of a trial that are not measured


def summary(trials_s: list[list[float]], tokens: int) -> dict[str, Any]:
    """Of the steps' durations, `tokens` each: mean and spread over the last steps of all trials, which are all kept."""
    measured = [seconds for trial in trials_s for seconds in trial[WARM_UP:]]
    mean_s = statistics.fmean(measured)
    return {
        "step_s": mean_s,
        "step_spread_s": statistics.stdev(measured),
        "tokens_per_s": tokens / mean_s,
        "trials_s": trials_s,
    }


def write(folder: Path, report: dict[str, Any], sizes: Mapping[str, Counter[int]]) -> None:
    """report.json, loss.png and messages.png, in a folder that exists."""
    from matplotlib.figure import Figure

    report = {**report, "messages": {name: sorted(counts.items()) for name, counts in sizes.items()}}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    title = f"{report['model']}, {report['strategy']}, {report['backend']}, {report['ranks']} ranks"

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(report["losses"]) + 1), report["losses"], marker=".")
    axes.set(xlabel="step", ylabel="loss (nats for a byte)", title=title)
    figure.savefig(folder / "loss.png", dpi=150)

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    names = list(sizes)
    largest = max(max(sizes[name]) for name in names)
    bins = [2.0**k for k in range(largest.bit_length() + 1)]
    axes.hist(
        [list(sizes[name]) for name in names], bins, weights=[list(sizes[name].values()) for name in names],
        label=names, stacked=True,
    )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set(xlabel="bytes of a call's largest buffer", ylabel="calls in a step", title=title)
    axes.legend()
    figure.savefig(folder / "messages.png", dpi=150)
