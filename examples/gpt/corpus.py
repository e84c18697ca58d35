# SPDX-License-Identifier: Apache-2.0
"""Real text as tokens of a byte each: the source of Python's standard library, which every Python brings, or a file."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch


def load(file: str) -> torch.Tensor:
    """All bytes of `file`, or of the standard library's sources in the order of their names if it is empty.

    Raises SystemExit (path) where there is no text.
    """
    if file:
        paths = [Path(file)]
    else:
        folder = Path(sysconfig.get_path("stdlib"))
        paths = sorted(path for path in folder.glob("**/*.py") if "site-packages" not in path.parts)
    try:
        text = b"".join(path.read_bytes() for path in paths)
    except OSError as error:
        raise SystemExit(f"train_gpt: --corpus: {error}") from None
    if not text:
        where = file or sysconfig.get_path("stdlib")
        raise SystemExit(f"train_gpt: no text in {where}: name a file by --corpus")
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class Batches:
    """Sequences at places drawn from a seed, other ones on each rank."""

    def __init__(self, corpus: torch.Tensor, sequence: int, seed: int) -> None:
        if len(corpus) <= sequence + 1:
            raise SystemExit(f"train_gpt: --corpus: {len(corpus)} bytes are less than a sequence of {sequence} tokens")
        self.corpus, self.sequence = corpus, sequence
        self.random = torch.Generator().manual_seed(seed)

    def next(self, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """`count` sequences, and each token's next."""
        begins = torch.randint(len(self.corpus) - self.sequence - 1, (count,), generator=self.random)
        rows = torch.stack([self.corpus[begin : begin + self.sequence + 1] for begin in begins.tolist()]).long()
        return rows[:, :-1].to(device), rows[:, 1:].to(device)
