"""Two people at once: what one does happens in the midst of what the other does, before a request that a test chooses.

Both use the product's own commands. A ``Chroot`` is a world of its own (a chroot), can be copied, and tells what stands in
it; ``faults`` judges that by itself, whatever was done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.documents.cycles import components
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Json
from nodepool_ocb.store import journal, rollouts
from nodepool_ocb.store.client import frames, session
from nodepool_ocb.store.client.answers import PendingAnswer
from nodepool_ocb.store.world.load import load_world
from tests.cli.rollouts.driving import Driver, failing

#: What a command may end with here: done, or refused with a sentence.
EXPECTED: Final = frozenset({0, 1, 3, 4})
#: What two worlds may differ in that are the same for people: times and names, who was noted, and for which reason.
PASSING: Final = frozenset({"since", "by", "started", "reason", "not_before", "run", "epoch", "driver", "newest"})
DRIVE: Final = "drive"

_numbers = itertools.count(1)


class Copied(NamedTuple):
    """A znode of another world."""

    path: str
    data: bytes
    gone: int = 0  # how many children it had that were deleted


class Interrupted(journal.Journaled):
    """A session in whose midst ``meanwhile`` is called once: before the request of this number, counted from 1."""

    at: ClassVar[int] = 0
    meanwhile: ClassVar[Callable[[], object]]

    def _send(self, request: frames.Raw) -> PendingAnswer:
        Interrupted.at -= 1
        if Interrupted.at == 0:
            Interrupted.meanwhile()  # its own requests count on below 0
        return super()._send(request)


class Chroot:
    """A world on a server; ``client`` is the test's own connection, to the server's root."""

    def __init__(self, client: KazooClient, hosts: str, files: Mapping[str, str], znodes: Iterable[Copied]) -> None:
        self._client, self._hosts, self._files = client, hosts, files
        self._chroot = f"/people-{next(_numbers)}"
        made = client.transaction()
        made.create(self._chroot)
        for path, data, gone in znodes:
            made.create(self._chroot + path, data)
            for _ in range(gone):  # the next number below it will be the same
                made.create(f"{self._chroot}{path}/gone")
                made.delete(f"{self._chroot}{path}/gone")
        assert not [each for each in made.commit() if isinstance(each, Exception)]
        self.settings = ZooKeeperSettings(hosts=hosts + self._chroot)
        self.marks: dict[str, int] = {}  # noderole → the highest generation that it had

    def copies(self) -> Iterator[Chroot]:
        """The same as now, each in a world of its own; as many as are taken."""
        znodes = list(self._znodes())
        while True:
            yield Chroot(self._client, self._hosts, self._files, znodes)

    def _znodes(self) -> Iterator[Copied]:
        below = [f"/{name}" for name in self._client.get_children(self._chroot)]
        for path in below:
            data, stat = self._client.get(self._chroot + path)
            if not stat.ephemeralOwner:
                yield Copied(path, data, (stat.cversion - stat.numChildren) // 2)
                if stat.numChildren:
                    below += [f"{path}/{name}" for name in sorted(self._client.get_children(self._chroot + path))]

    # -- what people do --

    def does(self, line: str) -> int:
        """One command; gives its exit code. ``drive NAME`` is no command: an annealer carries the rollouts of NAME out."""
        words = [self._files.get(word, word) for word in line.split()]
        if words[0] == DRIVE:
            self._drive(words[1])
            return 0
        result = CliRunner().invoke(cli, ["--zookeeper", self.settings.hosts, *words], prog_name="nodepool-ocb")
        assert result.exit_code in EXPECTED, (line, result.output)
        assert "unexpected" not in result.output, (line, result.output)
        return result.exit_code

    def _drive(self, deployment: str) -> None:
        with session.Session(self.settings) as opened:
            if rollouts.newest(opened, deployment) is not None:
                Driver(opened, failing("top@n2"), deployment).run_out()

    def in_turn(self, first: str, second: str) -> int:
        """One after the other; gives the number of requests that the first took."""
        requests = self._interrupted(first, lambda: None, 0)
        self.does(second)
        return requests

    def at_once(self, first: str, second: str, at: int) -> bool:
        """``second`` is done before the request ``at`` of ``first``, or after it; tells whether there was that request."""
        done: list[int] = []
        self._interrupted(first, lambda: done.append(self.does(second)), at)
        if not done:
            self.does(second)
        return bool(done)

    def _interrupted(self, line: str, meanwhile: Callable[[], object], at: int) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "Journaled", Interrupted)
            patch.setattr(Interrupted, "at", at)
            patch.setattr(Interrupted, "meanwhile", meanwhile, raising=False)
            self.does(line)
            return at - Interrupted.at

    # -- what is there --

    def look(self) -> tuple[list[str], Json]:
        """Whatever no sequence of commands may lead to; and all that people would call different, no more."""
        with session.Session(self.settings) as opened:
            world = load_world(opened)
            summary = _summary(world, rollouts.list_(opened))
        return [*map(str, world.unreadable.items()), *_faults(world), *self._fallen(world)], summary

    def _fallen(self, world: World) -> Iterator[str]:
        for vertex in world.vertices():
            mark = self.marks.get(vertex.name, 0)
            if vertex.record.generation < mark:
                yield f"{vertex.name} fell from generation {mark} to {vertex.record.generation}"
            self.marks[vertex.name] = max(mark, vertex.record.generation)


def _summary(world: World, rolled: Iterable[rollouts.ListedRollout]) -> Json:
    return {
        "noderoles": {vertex.name: _plain(vertex.record) for vertex in world.vertices()},
        "nodes": {view.name: _plain(view.record) for view in world.nodes.values() if view.record},
        "deployments": {name: _plain(stored.record) for name, stored in world.deployments.items()},
        "deployment roles": sorted(map(str, world.deployment_roles)),
        "roles": {name: _plain(stored.record) for name, stored in world.roles.items()},
        "rollouts": [(each.deployment, str(each.record.state)) for each in rolled],
    }


def _plain(record: Any) -> Json:
    plain = msgspec.to_builtins(record)
    return {key: value for key, value in plain.items() if key not in PASSING}


# -- what may never be --


def _faults(world: World) -> Iterator[str]:
    yield from _of_noderoles(world)
    yield from _of_deployments(world)
    yield from _of_roles(world)
    yield from _of_rollouts(world)


def _of_noderoles(world: World) -> Iterator[str]:
    for vertex in world.vertices():
        for name in vertex.record.parents:
            if world.parent(name) is None:
                yield f"{vertex.name} waits for {name}, which is not there"
        if vertex.record.deployment not in world.deployments:
            yield f"{vertex.name} is in deployment {vertex.record.deployment}, which is not there"
        stored = world.roles.get(vertex.role)
        for other in vertex.node.noderoles if stored else ():
            if stored and other in stored.record.conflicts:
                yield f"{vertex.name} stands beside {other}"
    for cluster in world.clusters.values():
        if (cluster.members or cluster.below) and cluster.gate < 0:
            yield f"{cluster.name} has no gate"
    yield from _circles({vertex.name: [parent.name for parent in vertex.parents] for vertex in world.vertices()})


def _of_deployments(world: World) -> Iterator[str]:
    for name, stored in world.deployments.items():
        if name != "system" and stored.record.parent not in world.deployments:
            yield f"deployment {name} is below {stored.record.parent}, which is not there"
    for view in world.nodes.values():
        if view.record is None:
            yield f"node {view.name} is not there, and something below it is"
        elif view.record.deployment not in world.deployments:
            yield f"node {view.name} is in deployment {view.record.deployment}, which is not there"
    for deployment, role in world.deployment_roles:
        if deployment not in world.deployments:
            yield f"{role} is configured for {deployment}, which is not there"


def _of_roles(world: World) -> Iterator[str]:
    yield from _circles({name: stored.record.requires for name, stored in world.roles.items()})


def _circles(graph: Mapping[str, Collection[str]]) -> Iterator[str]:
    return (f"a circle: {knot}" for knot in components(graph))


def _of_rollouts(world: World) -> Iterator[str]:
    under_way = {name for name, stored in world.rollouts.items() if not stored.record.over}
    for name in under_way:
        line, above = name, world.deployments.get(name)
        while above is not None and above.record.parent is not None:
            line, above = above.record.parent, world.deployments.get(above.record.parent)
            if line in under_way:
                yield f"rollouts of {name} and of {line} above it are under way"
    yield from (f"{name} is rolled out, and not there" for name in under_way - world.deployments.keys())
