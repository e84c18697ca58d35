# SPDX-License-Identifier: Apache-2.0
"""The options of train_gpt.py; what cannot be right is refused here, before the training and not behind it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gpt.model import PRESETS
from gpt.sharding import STRATEGIES


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def folder(text: str) -> Path:
    try:
        Path(text).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def trace(text: str) -> Path:
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    return folder(str(Path(text).parent)) / Path(text).name


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=PRESETS, default="gpt-2m")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp")
    parser.add_argument("--backend", default="lanecast", help="of torch.distributed")
    parser.add_argument("--corpus", default="", help="a text file; default: the source of Python's standard library")
    parser.add_argument("--micro-batch", type=positive, default=4, help="sequences of a rank at a time")
    parser.add_argument("--batch-tokens", type=positive, help="of all ranks together, in a step; default: the model's")
    parser.add_argument("--trials", type=positive, default=3)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a call waits for a rank")
    parser.add_argument("--out", type=folder, help="a folder for report.json, loss.png and messages.png")
    parser.add_argument("--profile", type=trace, help="a file (.json, .json.gz) for rank 0's trace of three more steps")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("no RANK in the environment: start it by torchrun, as --help shows")
    return options
