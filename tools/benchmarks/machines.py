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
from statistics import median
from typing import Any, Final

from benchmarks import ensemble, peers
from benchmarks.convergence import annealer, run
from benchmarks.figure import Figure, Plan, interleaved
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import cpu_seconds
from nodepool_ocb.testing.zookeeper.server import Server

MACHINES: Final = 200
STEPS: Final = 5
SCRIPT: Final = "true"
AT_ONCE: Final = 20  # machines, for every side
FOR_ANSIBLE: Final = 20  # machines: with all of them a round takes minutes
#: The reason for the targets of the rates: the fork, the key exchange and the shell of a machine cost more than both controllers.
OF_BOTH_ENDS: Final = (
    "more than half of it is the CPU of the machines, which share these cores; see the CPU of the controllers"
)


def measure(plan: Plan) -> Iterator[Figure]:
    """Steps a second."""
    count = plan.size(MACHINES)
    with (
        tempfile.TemporaryDirectory(prefix="ocb-") as directory,
        ensemble.server() as server,
        Farm(count, Path(directory)) as farm,
        ensemble.session(settings := ensemble.settings(server)) as session,
    ):
        ours, cpu_of_pyinfra = _Ours(server, settings, session, farm), list[float]()
        sides = {
            "cold": ours.cold,
            "warm": ours.warm,
            "pyinfra": lambda: _peer("pyinfra_steps", farm, count, cpu_of_pyinfra),
            "ansible": lambda: _peer("ansible_steps", farm, min(FOR_ANSIBLE, count), []),
        }
        rates = interleaved(plan.rounds, sides, warm_up=False)
    what = f"{count} machines x {STEPS} dependent scripts"
    for side, peer, target, note in (
        ("cold", "pyinfra", 0.75, OF_BOTH_ENDS),
        ("warm", "pyinfra", 1.5, OF_BOTH_ENDS),
        ("cold", "ansible", 25.0, f"Ansible: command, forks {AT_ONCE}, pipelining; {min(FOR_ANSIBLE, count)} machines"),
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
    own, other = median(ours.warm_cpu_ms), median(cpu_of_pyinfra) if cpu_of_pyinfra else None
    yield Figure(
        name="machines",
        what=f"{what}, warm: CPU of annealer and ZooKeeper, a step",
        unit="ms",
        ours=own,
        other=other,
        beside="ms, pyinfra's process",
        ratio=other and own / other,
        bound="at most",
        target=1.3,
        note="that of the machines is not counted: in production no controller pays it" if other else peers.MISSING,
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
        self.warm_cpu_ms: list[float] = []  # of annealer and ZooKeeper, a step; one for each warm round

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
            server_cpu = cpu_seconds(self._server.pid)
            done = run(self._server, self._session, self._process, self._grid)
            both = done.cpu_seconds + cpu_seconds(self._server.pid) - server_cpu
            self.warm_cpu_ms.append(both / done.size * 1000)
            return done.rate
        finally:
            self._stage.__exit__(None, None, None)


def _peer(name: str, farm: Farm, count: int, cpu_ms: list[float]) -> float:
    """Steps a second; 0 where the peer could not be installed. ``cpu_ms`` grows by the CPU of its process for a step."""
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
    if answer and "cpu_seconds" in answer:
        cpu_ms.append(float(answer["cpu_seconds"]) / (count * STEPS) * 1000)
    return count * STEPS / float(answer["seconds"]) if answer else 0.0


def address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``.

    >>> address("127.0.1.2:2022")
    ('127.0.1.2', 2022)
    """
    host, _, port = text.rpartition(":")
    return host, int(port)
