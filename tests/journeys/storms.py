"""Common parts of the storms over annealers: the fleet's annealers, the faults that they may meet, and the calm after them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from nodepool_ocb.engine.acting.backoff import backoff_left
from nodepool_ocb.model import paths
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.storm import Fault, Mend, host_fails, overtake
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.machines import faulty
from tests.journeys.fleet import SESSION_SECONDS, Fleet
from tests.journeys.person import Person
from tests.journeys.troubles import KEY, disks_fail, key_gone, records, wrong_clocks

Servers: TypeAlias = Callable[[], Server | Ensemble]
alone = partial(Server, fsync=False)
CALM_SECONDS: Final = 240.0  # after the storm, until nothing is left to be done
LASTS: Final = (0.2, 1.0, SESSION_SECONDS + 1.5)  # seconds for which a thing stays broken
HOURS: Final = (0.0, 3.0, -2.0)  # the annealers' clocks are so far ahead
SOON_SECONDS: Final = 5.0  # a pause that is awaited
LAUNCHER: Final = (faulty.__file__,)
RESOLVER: Final = ("EAI_AGAIN", "EAI_FAIL", "EAI_SYSTEM", "EAI_NONAME")
THREADS: Final = ("no thread", "no timer")
NETWORK: Final = ("ENETUNREACH", "EADDRNOTAVAIL", "EPERM", "ENOMEM")


def cut_machines(fleet: Fleet, seed: int) -> Fault:
    """Every connection to some machines ends; they take new ones."""
    chance = random.Random(seed)

    def machines(_: CutDaemon) -> Mend:
        for number in chance.sample(range(len(fleet.nodes)), k=3):
            fleet.farm.cut(number)
        return lambda: None

    return machines


def small_disks(stack: ExitStack, folder: Path) -> dict[Path, SmallDisk]:
    """For the logs of each annealer that there will be, by its folder; none where disks cannot be mounted."""
    if not mountable():
        print("no tmpfs can be mounted here: no disk will be full")
        return {}
    folders = [folder / f"a{number}" for number in range(len(HOURS))]
    return {each: stack.enter_context(SmallDisk(each / "runs", 32 << 20)) for each in folders}


def annealers(fleet: Fleet) -> None:
    """Three, with clocks that are hours apart."""
    for _ in HOURS:
        annealer = fleet.annealer(launcher=LAUNCHER, own_key=KEY)
        can_fail(annealer, "annealer")
    wrong_clocks(fleet.annealers, HOURS)
    for annealer in fleet.annealers:
        annealer.begin()


def faults(fleet: Fleet, disks: Mapping[Path, SmallDisk], seed: int) -> list[Fault]:
    """Those of machines and hosts."""
    own = [*host_faults(seed), host_fails("network_fails", NETWORK, seed)]
    others = overtake(fleet.settings(5.0), written, seed)
    return [cut_machines(fleet, seed), key_gone, *own, others, *(disks_fail(disks) if disks else ())]


def host_faults(seed: int) -> list[Fault]:
    """Those of the own host of any daemon that was started by LAUNCHER."""
    return [host_fails("resolver_fails", RESOLVER, seed), host_fails("threads_fail", THREADS, seed)]


def can_fail(daemon: CutDaemon, kind: str) -> None:
    """Its host may have faults: the daemon was made with LAUNCHER."""
    file = daemon.config.with_name("fault")
    file.write_text("")
    daemon.environment |= {"FAULT_FILE": str(file), "FAULT_DAEMON": kind}


def written(session: Session) -> list[str]:
    """The paths of the records that another writer may write."""
    return [paths.STRUCTURE, *records(session)]


def until_calm(fleet: Fleet, over: Callable[[], bool], seconds: float) -> None:
    """Meanwhile those begin again that ended because ZooKeeper was not there when they began."""

    def holds() -> bool:
        fleet.revive()
        return over()

    try:
        fleet.until(holds, "nothing is left to be done", seconds)
    except AssertionError as late:
        left = {name: fleet.record(name) for name in fleet.unfinished()}
        raise AssertionError(f"{late}, but {left}, and at work: {fleet.at_work()}") from None


def hurry(fleet: Fleet, person: Person) -> None:
    """A person lets each noderole run now that waits for its next attempt: the pauses grow with each run that a fault costs."""
    now = fleet.session.now()
    for vertex in load_world(fleet.session).vertices():
        if backoff_left(vertex.record, now) > SOON_SECONDS:
            person.does("noderole", "retry", vertex.name)
