"""Storms: every second or so a daemon is killed, frozen or cut off, or ZooKeeper's servers are, and mended a while later.

The same seed gives the same faults in the same order, as far as the machine's own timing allows. OCB_STORM_SECONDS says how
long every storm lasts, OCB_STORM_SEED which seed it has.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model.records import Set
from nodepool_ocb.store.client.codec import unsigned
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.server import Server

ALONE: Final = "alone"
SECONDS: Final = "OCB_STORM_SECONDS"
SEED: Final = "OCB_STORM_SEED"
OVERTAKEN: Final = 8  # records that another writer writes at a time

Mend: TypeAlias = Callable[[], object]
Fault: TypeAlias = Callable[[CutDaemon], Mend]


def duration(seconds: float) -> float:
    """The seconds that a storm lasts: by the environment, else ``seconds``."""
    return float(os.environ.get(SECONDS, seconds))


def seeded() -> int:
    """The seed of a storm: that of the environment, else a new one."""
    return int(os.environ.get(SEED, random.SystemRandom().randrange(1 << 32)))


def kill(daemon: CutDaemon) -> Mend:
    daemon.kill()
    return partial(_begin, daemon)


def _begin(daemon: CutDaemon) -> None:
    if not daemon.running():  # one that had ended by itself before it was killed may have begun again
        daemon.begin()


def freeze(daemon: CutDaemon) -> Mend:
    daemon.freeze()
    return daemon.thaw


def cut(daemon: CutDaemon) -> Mend:
    daemon.proxy.cut()
    return daemon.proxy.heal


def deafen(daemon: CutDaemon) -> Mend:
    """ZooKeeper carries out its requests, and the daemon does not get the answers."""
    daemon.proxy.drop_answers()
    return daemon.proxy.heal


def host_fails(name: str, among: Sequence[str], seed: int) -> Fault:
    """A fault of the daemon's own host, chosen ``among`` those that its launcher knows.

    The launcher reads the name of the fault from FAULT_FILE of its environment, and has none while that file is empty.
    """
    chance = random.Random(seed)

    def host_fails(daemon: CutDaemon) -> Mend:
        file = Path(daemon.environment["FAULT_FILE"])
        file.write_text(chance.choice(among))

        def repair() -> None:
            file.write_text("")
            _begin(daemon)  # one that began meanwhile may have ended for this fault

        return repair

    host_fails.__name__ = name
    return host_fails


def overtake(settings: ZooKeeperSettings, among: Callable[[Session], Sequence[str]], seed: int) -> Fault:
    """Answers are lost, and another writer writes the same records again before the daemon can ask about them.

    ``among`` gives the paths of which it writes some.
    """
    chance = random.Random(seed)

    def overtaken(daemon: CutDaemon) -> Mend:
        over = threading.Event()
        daemon.proxy.drop_answers()
        threading.Thread(target=_write_over, args=[settings, among, chance, over], daemon=True).start()

        def end() -> None:
            over.set()
            daemon.proxy.heal()

        return end

    return overtaken


def _write_over(
    settings: ZooKeeperSettings, among: Callable[[Session], Sequence[str]], chance: random.Random, over: threading.Event
) -> None:
    """Until it is over; the records are as they were, with another version and without a signature."""
    while not over.is_set():
        with contextlib.suppress(Stale, Unavailable), Session(settings) as session:
            while not over.wait(0.1):
                found = list(among(session))
                for znode in session.get_many(chance.sample(found, min(len(found), OVERTAKEN))):
                    if znode is not None:
                        with contextlib.suppress(Stale):
                            session.commit([Set(znode.path, msgspec.json.decode(unsigned(znode.data)), znode.version)])


# -- faults of ZooKeeper, for all daemons --


def of_server(server: Server) -> list[Fault]:
    """One server alone is frozen or killed."""

    def stop_server(_: CutDaemon) -> Mend:
        server.stop()
        return server.cont

    def kill_server(_: CutDaemon) -> Mend:
        server.kill()
        return server.start

    return [stop_server, kill_server]


def of_ensemble(ensemble: Ensemble) -> list[Fault]:
    """The leader is frozen or killed, a follower is cut off from the others, or all are gone."""

    def freeze_leader(_: CutDaemon) -> Mend:
        leader = ensemble.leader()
        leader.stop()
        return leader.cont

    def kill_leader(_: CutDaemon) -> Mend:
        leader = ensemble.leader()
        leader.kill()
        return leader.start

    def cut_follower(_: CutDaemon) -> Mend:
        leader = ensemble.leader()
        follower = next(member for member in ensemble.members if member is not leader)
        ensemble.cut(follower)
        return partial(ensemble.heal, follower)

    def kill_ensemble(_: CutDaemon) -> Mend:
        ensemble.kill()
        return ensemble.start

    return [freeze_leader, kill_leader, cut_follower, kill_ensemble]


class Storm:
    """Breaks one thing after another: ``daemons``, their ``servers``, and the faults in ``more``.

    ``lasts`` are the seconds for which a thing may stay broken. Several may be broken at a time, but not the servers
    twice, and nothing beside a fault that is ``alone``.
    """

    def __init__(
        self,
        daemons: Sequence[CutDaemon],
        servers: Server | Ensemble,
        seed: int,
        *,
        lasts: Sequence[float],
        more: Sequence[Fault] = (),
        alone: Sequence[Fault] = (),
    ) -> None:
        self._daemons, self._lasts = daemons, lasts
        self._chance = random.Random(seed)
        self._of_servers = of_ensemble(servers) if isinstance(servers, Ensemble) else of_server(servers)
        self._faults: list[Fault] = [kill, freeze, cut, deafen, *self._of_servers, *more, *alone]
        self._alone = alone
        self._broken: dict[str, tuple[float, Mend]] = {}  # when it is to be mended, and how
        self._pause = threading.Event()
        self.faults: Counter[str] = Counter()

    def blow(self, seconds: float, every_seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """A fault every few seconds, until the time is up; then everything is mended. ``meanwhile`` is called often."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._break()
            until = time.monotonic() + every_seconds * self._chance.uniform(0.5, 1.5)
            while (left := until - time.monotonic()) > 0:
                self._pause.wait(min(left, 0.1))
                self._mend(time.monotonic())
                meanwhile()
        self._mend(float("inf"))

    def _break(self) -> None:
        number = self._chance.randrange(len(self._daemons))
        fault = self._chance.choice(self._faults)
        lasts = self._chance.choice(self._lasts)
        name = ALONE if fault in self._alone else "servers" if fault in self._of_servers else str(number)
        broken = self._broken.keys()
        if not (broken if name == ALONE else broken & {name, ALONE}):
            self.faults[fault.__name__] += 1
            self._broken[name] = time.monotonic() + lasts, fault(self._daemons[number])

    def _mend(self, now: float) -> None:
        for name, (due, mend) in list(self._broken.items()):
            if due <= now:
                del self._broken[name]
                mend()
