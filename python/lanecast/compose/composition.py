# SPDX-License-Identifier: Apache-2.0
"""What a collective means, in three words: multicast, reduce and fence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lanecast import _core
from lanecast.dtypes import OP_CODES
from lanecast.wording import counted


@dataclass(frozen=True)
class Block:
    """[lo, hi) of a part, as shares of it; a part alone stands for all of it."""

    part: int
    lo: Fraction = Fraction(0)
    hi: Fraction = Fraction(1)

    def cut(self, k: int, n: int) -> Block:
        """The k-th of n equal cuts; where n does not divide the elements, cuts differ by one."""
        width = (self.hi - self.lo) / n
        return Block(self.part, self.lo + k * width, self.lo + (k + 1) * width)


Blocks = int | Block | Iterable[int | Block]


class Composition:
    """A collective of one's own, apart from any machine: what each rank brings, what must move, what must be added.

    inputs[r], outputs[r]: the numbers of the parts that lie in rank r's two buffers, in that order. A part has the same
    number, and the same count of elements, wherever it lies. Primitives of one step happen side by side and read what
    was there before the step; fence() begins the next one. In the end each output holds the newest values.
    Source: HiCCL, section III. Raises UsageError where lists differ in length or name a part twice.
    """

    def __init__(self, inputs: Sequence[Iterable[int]], outputs: Sequence[Iterable[int]]) -> None:
        try:
            self._core = _core.Composition([list(parts) for parts in inputs], [list(parts) for parts in outputs])
        except TypeError:
            raise _core.UsageError(
                "composition: inputs and outputs: expected a list of part numbers per rank"
            ) from None

    @classmethod
    def of(cls, collective: str, size: int, root: int = 0) -> Composition:
        """No primitive yet, and the buffers of a collective.

        all_reduce, broadcast, reduce: one part, number 0. all_to_all: part s * size + d goes from rank s to rank d. The
        others: part r is rank r's. Raises UsageError for names and roots that do not exist.
        """
        composition = cls.__new__(cls)
        composition._core = _core.Composition.of(collective, size, root)
        return composition

    def multicast(self, root: int, leaves: Iterable[int], block: Blocks) -> None:
        """Every leaf gets what `root` has of the block. Leaves may be any ranks, the root among them or not.

        Raises UsageError, and changes nothing, where a rank or part does not exist, the root has no value of the block,
        or another primitive of this step writes the same elements on a rank; the text names both.
        """
        self._core.multicast(root, list(leaves), _pieces(block))

    def reduce(self, leaves: Iterable[int], root: int, block: Blocks, op: str = "sum") -> None:
        """`root` gets the sum of what the leaves have of the block, and of nobody else: its own counts if it is a leaf.

        op: as in Communicator.all_reduce; an avg divides by the number of leaves. Raises as multicast does.
        """
        if op not in OP_CODES:
            raise _core.UsageError(f"reduce: op {op!r} is unknown; known: {', '.join(OP_CODES)}")
        self._core.reduce(list(leaves), root, _pieces(block), OP_CODES[op])

    def fence(self) -> None:
        """Let what follows read what was written so far. No rank waits in it: only what depends on something does."""
        self._core.fence()

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._core.size

    @property
    def parts(self) -> int:
        """One more than the largest number of a part."""
        return self._core.parts

    def __len__(self) -> int:
        return len(self._core)

    def __str__(self) -> str:
        lines = [self._core.describe(k) for k in range(len(self))]
        return "\n".join([f"composition of {counted(self.size, 'rank')} and {counted(self.parts, 'part')}", *lines])


def _pieces(block: Blocks) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
    blocks = [block] if isinstance(block, int | Block) else block
    whole = [Block(each) if isinstance(each, int) else each for each in blocks]
    return [(b.part, b.lo.as_integer_ratio(), b.hi.as_integer_ratio()) for b in whole]
