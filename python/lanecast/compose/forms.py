# SPDX-License-Identifier: Apache-2.0
"""The eight collectives as compositions: HiCCL's Table II, in the order of its rows, and a start for one's own.

All take the number of ranks; those through which everything goes a root, those that add an operator.
"""

from __future__ import annotations

from collections.abc import Callable

from lanecast.compose.composition import Block, Composition


def broadcast(p: int, root: int = 0) -> Composition:
    c = Composition.of("broadcast", p, root)
    c.multicast(root, range(p), 0)
    return c


def reduce(p: int, root: int = 0, op: str = "sum") -> Composition:
    c = Composition.of("reduce", p, root)
    c.reduce(range(p), root, 0, op)
    return c


def all_gather(p: int) -> Composition:
    c = Composition.of("all_gather", p)
    for i in range(p):
        c.multicast(i, range(p), i)
    return c


def reduce_scatter(p: int, op: str = "sum") -> Composition:
    c = Composition.of("reduce_scatter", p)
    for j in range(p):
        c.reduce(range(p), j, j, op)
    return c


def all_reduce(p: int, op: str = "sum") -> Composition:
    c = Composition.of("all_reduce", p)
    for j in range(p):
        c.reduce(range(p), j, 0, op)
    return c


def scatter(p: int, root: int = 0) -> Composition:
    """By reductions of one leaf: they go through the receivers' lanes, multicasts would all go through the root's."""
    c = Composition.of("scatter", p, root)
    for j in range(p):
        c.reduce([root], j, j)
    return c


def gather(p: int, root: int = 0) -> Composition:
    """By multicasts to one leaf, through the senders' lanes."""
    c = Composition.of("gather", p, root)
    for i in range(p):
        c.multicast(i, [root], i)
    return c


def all_to_all(p: int) -> Composition:
    c = Composition.of("all_to_all", p)
    for i in range(p):
        for j in range(p):
            c.multicast(i, [j], i * p + j)
    return c


def broadcast_by_scatter(p: int, root: int = 0) -> Composition:
    c = Composition.of("broadcast", p, root)
    for j in range(p):
        c.reduce([root], j, Block(0).cut(j, p))
    c.fence()
    for i in range(p):
        c.multicast(i, range(p), Block(0).cut(i, p))
    return c


def reduce_by_gather(p: int, root: int = 0, op: str = "sum") -> Composition:
    c = Composition.of("reduce", p, root)
    for j in range(p):
        c.reduce(range(p), j, Block(0).cut(j, p), op)
    c.fence()
    for i in range(p):
        c.multicast(i, [root], Block(0).cut(i, p))
    return c


def all_gather_by_broadcast(p: int, root: int = 0) -> Composition:
    c = Composition.of("all_gather", p)
    for i in range(p):
        c.multicast(i, [root], i)
    c.fence()
    c.multicast(root, range(p), range(p))
    return c


def reduce_scatter_by_scatter(p: int, root: int = 0, op: str = "sum") -> Composition:
    c = Composition.of("reduce_scatter", p)
    c.reduce(range(p), root, range(p), op)
    c.fence()
    for j in range(p):
        c.reduce([root], j, j)
    return c


def all_reduce_by_broadcast(p: int, root: int = 0, op: str = "sum") -> Composition:
    c = Composition.of("all_reduce", p)
    c.reduce(range(p), root, 0, op)
    c.fence()
    c.multicast(root, range(p), 0)
    return c


def all_reduce_by_all_gather(p: int, op: str = "sum") -> Composition:
    c = Composition.of("all_reduce", p)
    for j in range(p):
        c.reduce(range(p), j, Block(0).cut(j, p), op)
    c.fence()
    for i in range(p):
        c.multicast(i, range(p), Block(0).cut(i, p))
    return c


Form = Callable[..., Composition]

SINGLE_STEP: dict[str, Form] = {
    form.__name__: form
    for form in (broadcast, reduce, all_gather, reduce_scatter, all_reduce, scatter, gather, all_to_all)
}
MULTI_STEP: dict[str, Form] = {
    form.__name__: form
    for form in (
        broadcast_by_scatter,
        reduce_by_gather,
        all_gather_by_broadcast,
        reduce_scatter_by_scatter,
        all_reduce_by_broadcast,
        all_reduce_by_all_gather,
    )
}
