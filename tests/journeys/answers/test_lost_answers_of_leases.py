"""Each transaction of ``lease run`` loses its answer while another writer writes: the report is ZooKeeper's outcome.

The lease then ends, or the verb tries again. No request and no lock of a node stays.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNode, PoolNodeState, RequestState
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import contenders
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import Ocb
from tests.journeys.answers.lost_answers import Ledger, Rival, Sparing, faults, table

LENDING: Final = "operations.leases.lending.Lending"
#: The sites of a lease from its request to the return of its nodes.
SITES: Final = {
    "operations.reads.pools.CreateRequest.carry_out",
    "store.locks.Locks.take",
    f"{LENDING}._marked",
    f"{LENDING}._tried",
}
MOST_LEASES: Final = 24  # each ends at one of the moments of one site at the latest


@contextmanager
def launching(settings: ZooKeeperSettings) -> Iterator[Session]:
    """A launcher that hands out a new node for each request; gives its session."""
    over = threading.Event()
    with Session(settings) as session:
        launcher = PlayedLauncher(session)

        def serve() -> None:
            while not over.wait(0.02):
                for id in launcher.requests():
                    with suppress(OcbError, AssertionError):  # the request was withdrawn meanwhile
                        if launcher.request(id).state is RequestState.REQUESTED:
                            launcher.fulfils(id, launcher.makes())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield session
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("rival", Rival)
def test_what_lease_run_is_told_of_a_lost_answer_is_so(
    rival: Rival, zk_settings: ZooKeeperSettings, zk_session: Session, ocb: Ocb, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    words = ("lease", "run", "--label", "small", "--wait-timeout", "10s", "--identity", str(key), "--", "true")
    said = []
    with launching(zk_settings) as others, Ledger(zk_settings, rival, sparing=Sparing.SITE) as ledger:
        ledger.about = "lease run"
        while not said or (said[-1][0] != 0 and len(said) < MOST_LEASES):
            with ledger.watch(lambda session: session not in (others, zk_session)):
                answer = ocb(*words)
            said.append((answer.exit_code, answer.output))
    print("\n".join(table(ledger.reports)), *said, sep="\n")
    assert faults(ledger.reports) == []
    assert {report.site.partition("#")[0] for report in ledger.reports} >= SITES
    assert said[-1][0] == 0, "when each site had its moments, the command runs"
    assert zk_session.children(paths.REQUESTS) == []
    nodes = zk_session.children(paths.POOL_NODES) or []
    for node in nodes:
        assert not contenders(zk_session.children(paths.pool_node_lock(node)) or ()), "no lock stays"
    assert PoolNodeState.USED in {state(zk_session, node) for node in nodes}, "the node is returned"


def state(session: Session, node: str) -> PoolNodeState:
    znode = session.get(paths.pool_node(node))
    assert znode is not None
    return codec.decode(PoolNode, znode).state
