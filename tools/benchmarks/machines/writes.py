"""The work of ZooKeeper for a warm step: requests, transactions, fsyncs and bytes, beside bare multis, two a step.

Requests and transactions are ZooKeeper's own counts (``cons`` and ``srvr``), fsyncs too (``mntr``). Bytes are the kernel's count
of the pages that its process gives to the disk (``/proc/PID/io``). A fsync serves all transactions that wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from benchmarks import ensemble
from benchmarks.converging import multis
from benchmarks.figure import Figure, Plan, over
from benchmarks.flood import flood
from benchmarks.machines.ours import AT_ONCE, SCRIPT, OurSide, farm, our_side, scripted
from benchmarks.sending import make_znodes
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.zookeeper import counters
from nodepool_ocb.testing.zookeeper.server import Server

MACHINES: Final = 100
STEPS: Final = 5
MULTIS: Final = 2  # of the floor, for each step: claim and result
UNITS: Final[Mapping[str, str]] = {
    "requests": "requests", "transactions": "transactions", "fsyncs": "fsyncs", "written_bytes": "bytes to the disk",
}  # fmt: skip


class Counts(msgspec.Struct, frozen=True):
    """The counts of a server, all sessions but one included."""

    requests: int
    transactions: int
    fsyncs: int
    written_bytes: int

    def since(self, before: Counts, steps: int) -> dict[str, float]:
        """For each step, what has been added."""
        return {name: (getattr(self, name) - getattr(before, name)) / steps for name in self.__struct_fields__}


def counts(server: Server, but: int = 0) -> Counts:
    return Counts(
        counters.requests(server, but),
        counters.transactions(server),
        counters.fsyncs(server),
        counters.written_bytes(server),
    )


def measure(plan: Plan) -> Iterator[Figure]:
    """Of the warm steps, of the median round."""
    count = plan.size(MACHINES, least=2)
    with ensemble.server() as server, farm(count) as machines:
        grid = Grid(nodes=count, depth=STEPS, across=False, role=scripted(SCRIPT))
        with our_side(server, machines, grid) as ours, ours.annealer() as process:
            ours.round(process)
            pairs = [(_ours(ours, process), _floor(server, count * STEPS)) for _ in range(plan.rounds)]
    for name, unit in UNITS.items():
        own, floor = (median(pair[side][name] for pair in pairs) for side in (0, 1))
        yield Figure(
            name="zookeeper", what=f"{count} machines x {STEPS} steps, warm: {unit} a step", unit=unit, ours=own,
            other=floor, beside=f"{unit}, bare multis of three, {AT_ONCE} under way, {MULTIS} a step",
            ratio=over(own, floor),
        )  # fmt: skip


def _ours(ours: OurSide, process: DaemonProcess) -> dict[str, float]:
    """Without the requests of this program's own session, which asks whether all is done."""
    ours.rewind(process)
    before = counts(ours.server, ours.session.id)
    done = ours.again(process)
    return counts(ours.server, ours.session.id).since(before, done.size)


def _floor(server: Server, steps: int) -> dict[str, float]:
    with ensemble.session(ensemble.settings(server)) as session:
        return _flooded(server, session, make_znodes(session), steps)


def _flooded(server: Server, session: Session, paths: Sequence[str], steps: int) -> dict[str, float]:
    paths = paths[: 2 * steps]  # each of them is set as often as the others
    before = counts(server)
    sent = list(multis(paths, MULTIS * steps))
    flood(session, sent, window=AT_ONCE)
    return counts(server).since(before, len(sent) // MULTIS)
