"""Two hundred real machines, five scripts each that depend on one another: steps a second, beside pyinfra and Ansible.

The machines are sshd processes on this computer, which does the work of both sides: the costs of the sides are compared.
Cold: no connection is open yet. Warm: those of the round before are. The peers connect again, as they always do.

All sides do the same work, in their intended use: five operations for each machine, with one command each. The exit
status is checked before the next command starts. Each side works on as many machines at a time. The clock starts when the
program is loaded and knows its machines, before the first connection.
"""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import ensemble, peers
from benchmarks.convergence import annealer, run
from benchmarks.figure import Figure, Plan, interleaved
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.server import Server

MACHINES: Final = 200
STEPS: Final = 5
SCRIPT: Final = "true"
AT_ONCE: Final = 20  # machines, for every side
FOR_ANSIBLE: Final = 20  # machines: with all of them a round takes minutes


def measure(plan: Plan) -> Iterator[Figure]:
    """Steps a second."""
    count = plan.size(MACHINES)
    with (
        tempfile.TemporaryDirectory(prefix="ocb-") as directory,
        ensemble.server() as server,
        Farm(count, Path(directory)) as farm,
        ensemble.session(settings := ensemble.settings(server)) as session,
    ):
        ours = _Ours(server, settings, session, farm)
        sides = {
            "cold": ours.cold,
            "warm": ours.warm,
            "pyinfra": lambda: _peer("pyinfra_steps", farm, count),
            "ansible": lambda: _peer("ansible_steps", farm, min(FOR_ANSIBLE, count)),
        }
        rates = interleaved(plan.rounds, sides, warm_up=False)
    what = f"{count} machines x {STEPS} dependent scripts"
    for side, peer, target, note in (
        ("cold", "pyinfra", 1.0, ""),
        ("warm", "pyinfra", 1.8, ""),
        ("cold", "ansible", 30.0, f"Ansible: command, forks {AT_ONCE}, pipelining; {min(FOR_ANSIBLE, count)} machines"),
    ):
        other = rates[peer] or None
        yield Figure(
            name="machines",
            what=f"{what}, {side}",
            unit="steps/s",
            ours=rates[side],
            other=other,
            beside=f"steps/s, {peer}",
            ratio=other and rates[side] / other,
            bound="at least",
            target=target,
            note=note if other else peers.MISSING,
        )


class _Ours:
    """One world for all rounds: a machine never obeys a cluster that has begun to count anew."""

    def __init__(self, server: Server, settings: ZooKeeperSettings, session: Session, farm: Farm) -> None:
        self._server, self._settings, self._session = server, settings, session
        records = farm.records()
        role = Role(barclamp="bench", jig="script", script=SCRIPT)
        self._grid = Grid(nodes=len(records), depth=STEPS, across=False, role=role, machines=records)
        self._sections = {
            "annealer": {"slots": AT_ONCE, "probe_seconds": 3600.0},
            "ssh": farm.settings(),
        }
        self._grid.write(session)
        self._stage: Any = None

    def cold(self) -> float:
        """A new annealer."""
        self._grid.rewind(self._session)
        self._stage = annealer(self._settings, self._sections)
        self._process = self._stage.__enter__()
        self._process.start()
        return run(self._server, self._session, self._process, self._grid).rate

    def warm(self) -> float:
        """The same annealer once more; then it ends."""
        try:
            self._grid.rewind(self._session)
            return run(self._server, self._session, self._process, self._grid).rate
        finally:
            self._stage.__exit__(None, None, None)


def _peer(name: str, farm: Farm, count: int) -> float:
    """Steps a second; 0 where the peer could not be installed."""
    machines = [
        dict(zip(("host", "port"), address(node.addresses[0]), strict=True)) for _, node in farm.records()[:count]
    ]
    task = {
        "machines": machines,
        "user": getpass.getuser(),
        "key": farm.settings()["key_files"][0],
        "steps": [],
        "parallel": AT_ONCE,
    }
    task["steps"] = [f"{SCRIPT} step {number}" for number in range(STEPS)]
    answer = peers.ask(name, task)
    return count * STEPS / float(answer["seconds"]) if answer else 0.0


def address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``.

    >>> address("127.0.1.2:2022")
    ('127.0.1.2', 2022)
    """
    host, _, port = text.rpartition(":")
    return host, int(port)
