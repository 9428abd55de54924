"""What people and their hands do to a cluster in a storm, what there is to do it to, and what may happen to the daemons'
hosts.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.disks import SmallDisk
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.storm import Fault, Mend
from nodepool_ocb.testing.troubles import MENDED_SECONDS, Trouble
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.person import Person

GONE, REFUSED = 3, 4  # exit codes
KEY: Final = "id_ed25519"  # of an annealer that has one of its own, in its folder

NOTICED_SECONDS: Final = 15.0  # for an annealer to begin, and to find that no machine takes its key

#: Fails the first time on each machine.
FLAKY: Final = 'mark=${OCB_RUN%/runs/*}/flaky; [ -e "$mark" ] || { : >"$mark"; exit 1; }'
#: Some megabytes of words.
FLOOD: Final = 'yes "a line that says little, and there are many of them" | head -n 40000'


def records(session: Session) -> list[str]:
    """The paths of whatever may turn unreadable."""
    world = load_world(session)
    noderoles = [paths.noderole(vertex.role, vertex.node.name) for vertex in world.vertices()]
    return [*noderoles, *map(paths.node, world.nodes), *map(paths.role, world.roles)]


class Commands(Trouble):
    """A trouble that somebody makes with commands."""

    def __init__(self, fleet: Fleet, seed: int, nodes: Sequence[str]) -> None:
        super().__init__(seed)
        self.fleet, self.nodes = fleet, nodes
        self._person = Person(fleet.hosts)

    def write_until_done(self, *words: str, done: Sequence[int] = (0,), so_that: Sequence[str] = ()) -> None:
        """Again and again until the command is done: what works now ends, and ZooKeeper comes back.

        With ``so_that``, until that command succeeds, too.
        """
        deadline = time.monotonic() + MENDED_SECONDS
        while (code := self._person.does(*words)) not in done or (so_that and self._person.does(*so_that)):
            assert time.monotonic() < deadline, (words, code, self._person.said)
            time.sleep(0.2)

    def try_once(self, *words: str) -> None:
        self._person.does(*words)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._person.__exit__(kind, error, trace)


class Lives(Commands):
    """Nodes are deleted and created again, their roles bound and committed; or only the role at the end of the chain."""

    def round(self) -> None:
        self.pause(0.3, 2.0)
        fqdn = self.chance.choice(self.nodes)
        if self.chance.random() < 0.6:
            self._create_again(fqdn)
        else:
            self.write_until_done("noderole", "unbind", f"second@{fqdn}", "--yes", done=(0, GONE))
            self.fleet.begins_anew(f"second@{fqdn}")
        self.write_until_done("node", "bind", fqdn, "second")
        self.write_until_done("node", "commit", fqdn)

    def _create_again(self, fqdn: str) -> None:
        node = dict(self.fleet.farm.records())[fqdn]
        self.write_until_done("node", "delete", fqdn, "--yes", done=(0, GONE))
        self.fleet.begins_anew(f"first@{fqdn}", f"second@{fqdn}")
        key = ("--host-key", node.host_keys[0]) if self.chance.random() < 0.5 else ()
        address = ("--address", node.addresses[0], "--user", node.user, "--deployment", DEPLOYMENT)
        there = ("node", "show", fqdn)  # refused because it is there, or because some record cannot be read
        self.write_until_done("node", "create", fqdn, *address, *key, done=(0, REFUSED), so_that=there)


class Refreshing(Commands):
    """Members of a cluster run again in place, or are taken back and committed once more."""

    def round(self) -> None:
        self.pause(0.5, 2.0)
        member = f"member@{self.chance.choice(self.nodes)}"
        if self.chance.random() < 0.7:
            self.try_once("noderole", "refresh", member)
        else:
            self.try_once("noderole", "propose", member)
            self.write_until_done("noderole", "commit", member)


# -- what there is to be troubled --


def chain(fleet: Fleet, nodes: Sequence[str], seconds: float) -> None:
    """On each node ``first``, and ``second`` which requires it."""
    fleet.add_role("first", fleet.work(seconds, flags=("implicit",)))
    fleet.add_role("second", fleet.work(seconds, requires=("first",)))
    for fqdn in nodes:
        fleet.bind("second", fqdn, [fleet.bind("first", fqdn)])


def cluster(fleet: Fleet, members: int, children: int) -> list[str]:
    """A cluster of so many on nodes without machines, and children of all of it; gives the members' nodes."""
    fleet.add_role("member", Role(barclamp="fleet", jig="test", flags=("cluster",), parameters={"delay": 0.2}))
    fleet.add_role("child", Role(barclamp="fleet", jig="noop", requires=("member",)))
    names = [f"v{number}.farm.example.com" for number in range(members + children)]
    with Person(fleet.hosts) as person:
        for number, name in enumerate(names):
            role = "member" if number < members else "child"
            for words in (("create", name, "--virtual", "--deployment", DEPLOYMENT), ("bind", name, role)):
                assert person.does("node", *words) == 0, person.said
        for name in names:
            assert person.does("node", "commit", name) == 0, person.said
    return names[:members]


# -- faults of daemons' hosts --


def wrong_clocks(daemons: Sequence[CutDaemon], hours: Sequence[float]) -> None:
    """The clock of each is so many hours ahead, whenever it is started."""
    for daemon, ahead in zip(daemons, hours, strict=True):
        if ahead:
            daemon.environment |= skewed(ahead * 3600)


def disks_fail(disks: Mapping[Path, SmallDisk]) -> list[Fault]:
    """What may happen to the disk of a daemon's logs; ``disks`` are by the folders of their daemons."""

    def disk_full(daemon: CutDaemon) -> Mend:
        disk = disks[daemon.config.parent]
        disk.fill()
        return disk.free

    def disk_read_only(daemon: CutDaemon) -> Mend:
        disk = disks[daemon.config.parent]
        disk.read_only()
        return disk.writable

    return [disk_full, disk_read_only]


def key_gone(daemon: CutDaemon) -> Mend:
    """Its private key vanishes, and it is started anew without."""
    key = daemon.config.with_name(KEY)
    away = key.rename(key.with_name(f"{KEY}.away"))
    _restart(daemon)
    return lambda: away.rename(key)


def key_bad(fleet: Fleet) -> Fault:
    """In the place of its private key stands one that no machine takes; nothing comes of it as long as another is well."""

    def key_replaced(daemon: CutDaemon) -> Mend:
        if _living(fleet) < len(fleet.annealers):
            return lambda: None
        key = daemon.config.with_name(KEY)
        good = key.rename(key.with_name(f"{KEY}.good"))
        new_key(key)
        _restart(daemon)
        until = time.monotonic() + NOTICED_SECONDS
        while not _failed(daemon) and time.monotonic() < until:
            time.sleep(0.05)

        def put_back() -> None:
            good.replace(key)
            _restart(daemon)

        return put_back

    return key_replaced


def new_key(file: Path) -> None:
    """A private key that no machine takes."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)


def _living(fleet: Fleet) -> int:
    with suppress(Unavailable):
        return fleet.living()
    return 0


def _failed(daemon: CutDaemon) -> bool:
    """Whether it asked a machine that did not let it in."""
    with suppress(OSError):
        return daemon.metric('nodepool_ocb_probes_total{outcome="failed"}') > 0
    return False


def _restart(daemon: CutDaemon) -> None:
    daemon.kill()
    daemon.begin()
