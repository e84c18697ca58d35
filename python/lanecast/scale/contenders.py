# SPDX-License-Identifier: Apache-2.0
"""Who is compared: Lanecast's algorithms, what vendors' libraries do, and the selections of MPIs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lanecast import _core
from lanecast.compose.factors import Factors, prime_factors
from lanecast.machines import Machine, topology_in
from lanecast.scale import platform

SELECTIONS = ("ompi", "mpich", "mvapich2", "impi")
SHORT = ("lanecast", "ring-across", "recursive-across", "direct-across", "flat", "ring-per-nic", "composed")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")
_WORD_BYTES = 8  # the simulated calls' elements
_MOST_MESSAGES = 16 << 20  # in one call; more only cost time, and chunks are what they come from
_DEPTH = 32  # of a composition's pipeline, as where HiCCL's rings are saturated (VI-D)


@dataclass(frozen=True)
class Case:
    """One call on so many ranks of a machine."""

    machine: Machine
    collective: str
    ranks: int
    bytes: int  # of the full buffer, a multiple of what all ranks share evenly

    @property
    def topology(self) -> _core.Topology:
        return _core.Topology.parse(topology_in(self.machine, self.ranks), self.ranks)


@dataclass(frozen=True)
class Plan:
    """How a contender runs a case; predicted_s: by the cost model from the machine's figures."""

    algorithm: str
    chunks: int = 1
    predicted_s: float | None = None
    settings: tuple[str, ...] = ()
    factors: Factors = ()  # of a composition's hierarchy

    def words(self, case: Case) -> list[str]:
        return [
            f"ranks={case.ranks}", f"topology={topology_in(case.machine, case.ranks)}",
            f"collective={case.collective}", f"bytes={case.bytes}", f"algorithm={self.algorithm}",
            f"chunks={self.chunks}", *(f"set={setting}" for setting in self.settings),
            *([f"factors={','.join(map(str, self.factors))}"] if self.factors else []),
        ]  # fmt: skip


def on(name: str, case: Case) -> Case:
    """The case as this contender meets it: rings for each NIC are one ring on wires as fast as all of them."""
    return replace(case, machine=platform.merged(case.machine)) if name == "ring-per-nic" else case


def evenly(size: int, ranks: int) -> int:
    """The size, rounded up to whole elements for each rank."""
    share = ranks * _WORD_BYTES
    return (size + share - 1) // share * share


def check(name: str) -> str:
    """The name, or UsageError with what there is."""
    if name in SHORT or name in SELECTIONS or (name.startswith("lanecast:") and name != "lanecast:"):
        return name
    raise _core.UsageError(
        f"backend {name!r} is unknown; known: {', '.join([*SHORT, *SELECTIONS])}, lanecast:ALGORITHM"
    )


def plan(name: str, case: Case, chunks: int = 0) -> Plan:
    """What a contender does; chunks 0: as the cost model has it, but within what can be simulated."""
    if name in SELECTIONS:
        return Plan("mpi", settings=(f"smpi/coll-selector:{name}",))
    if name == "composed":
        nodes = case.ranks // case.machine.ranks_per_node
        return Plan(name, chunks or _DEPTH, factors=(*prime_factors(nodes), *case.machine.shape_in_node))
    topology = case.topology
    found = _core.candidates(case.collective, case.bytes, topology, platform.models(case.machine, topology))
    algorithm = _algorithm(name, case, topology) or found[0]["algorithm"]
    for candidate in found:
        if candidate["algorithm"] == algorithm:
            most = max(1, _MOST_MESSAGES // _messages(case, topology, algorithm))
            return Plan(algorithm, chunks or min(candidate["chunks"], most), candidate["seconds"])
    raise _core.UsageError(
        f"algorithm {algorithm!r} does not run {case.collective} on {topology}; "
        f"known: {', '.join(candidate['algorithm'] for candidate in found[:12])}, …"
    )


# What is meant where a collective has no algorithm of that name.
_ACROSS = {
    "broadcast": {"ring": "chain", "recursive_doubling": "binomial", "bruck": "binomial"},
    "reduce": {"ring": "chain", "recursive_doubling": "binomial", "bruck": "binomial"},
    "gather": {"recursive_doubling": "binomial", "bruck": "binomial"},
    "scatter": {"recursive_doubling": "binomial", "bruck": "binomial"},
    "all_to_all": {"recursive_doubling": "bruck", "direct": "pairwise"},
}
_FLAT = {  # what NCCL and RCCL do between nodes
    "all_reduce": "double_tree", "broadcast": "chain", "reduce": "chain", "gather": "direct", "scatter": "direct",
    "all_to_all": "pairwise",
}  # fmt: skip


def _algorithm(name: str, case: Case, topology: _core.Topology) -> str:
    """Empty: the cost model's choice."""
    if name.startswith("lanecast"):
        return name.partition(":")[2]
    if name == "flat" or (name == "ring-per-nic" and case.collective not in COLLECTIVES):
        return _FLAT.get(case.collective, "ring")
    if name == "ring-per-nic":
        return "ring"
    nodes = case.ranks // case.machine.ranks_per_node
    recursive = "recursive_doubling" if nodes & (nodes - 1) == 0 else "bruck"
    across = {"ring-across": "ring", "direct-across": "direct"}.get(name, recursive)
    here = _ACROSS.get(case.collective, {})
    across, inside = here.get(across, across), here.get("direct", "direct")
    return f"hierarchical({','.join([across, *[inside] * len(topology.levels)])})" if topology.levels else across


def _messages(case: Case, topology: _core.Topology, algorithm: str) -> int:
    """In one chunk, some: as if all ranks did what the last one does, who is no root."""
    plan = _core.make_plan(case.collective, case.ranks - 1, topology, algorithm)
    ends = sum(step["kind"] in {"send", "recv", "recv_reduce"} for step in plan.to_dict()["steps"])
    return max(1, int(case.ranks * ends) // 2)
