"""How soon work is taken: from TODO written to claim held, beside a synchronous set and TaskFlow's jobboard."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue
from statistics import median
from typing import Final

from msgspec.structs import replace

from benchmarks import ensemble, peers
from benchmarks.convergence import annealer
from benchmarks.figure import Figure, Plan, interleaved, p99
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.zookeeper.server import Server

GRID: Final = Grid(nodes=200, depth=1)
TIMES: Final = 100  # a round
JOBS: Final = 10  # of the jobboard, a round: half a second each
PATIENCE_SECONDS: Final = 5.0


def measure(plan: Plan) -> Iterator[Figure]:
    """Milliseconds."""
    times = plan.size(TIMES, least=20)
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session, annealer(settings) as process:
            GRID.write(session)
            process.start()
            GRID.start(session)
            await_that(GRID.finished(session), 60.0, "every noderole is ACTIVE")
            watch = _Watch(session)
            ours, sets = Samples(), Samples()
            sides = {
                "ours": lambda: ours.median(watch.claimed_after(number) for number in range(times)),
                "set": lambda: sets.median(_set(session) for _ in range(times)),
                "jobboard": lambda: _jobboard(server),
            }
            took = interleaved(plan.rounds, sides)
    what = "from TODO written to claim held, median"
    yield Figure(
        name="dispatch",
        what=what,
        unit="ms",
        ours=took["ours"] * 1e3,
        p99=ours.p99_ms,
        other=took["set"] * 1e3,
        other_p99=sets.p99_ms,
        beside="ms, a synchronous set",
        ratio=took["ours"] / took["set"],
        bound="at most",
        target=3.0,  # two round trips: TODO's event and its read, then the claim; and the time to decide
    )
    board = took["jobboard"] or None
    yield Figure(
        name="dispatch",
        what=what,
        unit="ms",
        ours=took["ours"] * 1e3,
        p99=ours.p99_ms,
        other=board and board * 1e3,
        beside="ms, TaskFlow's conductor on its ZooKeeper jobboard, post to claim",
        ratio=board and took["ours"] / board,
        bound="at most",
        target=0.02,
        note="its conductor looks every half second" if board else peers.MISSING,
    )


class Samples:
    """The times of all rounds but the first, which warms the server up."""

    def __init__(self) -> None:
        self._rounds: list[list[float]] = []

    def median(self, times: Iterable[float]) -> float:
        """Add a round; gives its median."""
        self._rounds.append(list(times))
        return median(self._rounds[-1])

    @property
    def p99_ms(self) -> float | None:
        late = p99([value for each in self._rounds[1:] for value in each])
        return late and late * 1e3


class _Watch:
    """Sees claims come, in the same session that writes TODO."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: SimpleQueue[tuple[str, str, float]] = SimpleQueue()
        session.watch(paths.NODES, lambda kind, path: self._seen.put((kind, path, time.perf_counter())))

    def claimed_after(self, number: int) -> float:
        """Seconds from the end of the write that made a noderole TODO to its node's claim."""
        fqdn = GRID.fqdn(number % GRID.nodes)
        path = paths.noderole("step-0-0", fqdn)
        znode = self._session.get(path)
        assert znode is not None, "the grid was written"
        record = codec.decode(NodeRole, znode)
        todo = replace(record, state=State.TODO, generation=record.generation + 1)
        self._session.commit([Set(path, todo, znode.version)])
        written = time.perf_counter()
        claimed = self._await("created", paths.claim(fqdn))
        self._await("deleted", paths.claim(fqdn))
        return max(claimed - written, 0.0)

    def _await(self, kind: str, path: str) -> float:
        while True:
            try:
                seen_kind, seen_path, when = self._seen.get(timeout=PATIENCE_SECONDS)
            except Empty:
                raise RuntimeError(f"{path} was not {kind} within {PATIENCE_SECONDS:g} s") from None
            if (seen_kind, seen_path) == (kind, path):
                return when


def _set(session: Session) -> float:
    """Seconds of one synchronous set, as big as a noderole's record."""
    session.ensure("/set")
    znode = session.get("/set")
    assert znode is not None, "it was just made"
    began = time.perf_counter()
    session.commit([Set("/set", GRID.record(0, 0, 0), znode.version)])
    return time.perf_counter() - began


def _jobboard(server: Server) -> float:
    """Seconds from post to claim, the median of some jobs; 0 where TaskFlow could not be installed."""
    answer = peers.ask("jobboard", {"hosts": server.hosts, "jobs": JOBS})
    return float(answer["seconds"]) if answer else 0.0
