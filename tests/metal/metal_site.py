"""Machines of the fleet in ZooKeeper for the driver metal. The test plays the annealers: it ends their installations."""

from __future__ import annotations

import threading
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event, after, settle
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.installation import Installation, InstallStep, MachineUse
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Change, Create, Fence, Json, Node, NodeRole, Record, Role, Set, State
from nodepool_ocb.pool.metal import choosing
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb_launcher.questions import FleetQuestions

OS, IMAGE, BUILD = "provisioner-os-install", "debian", "0000000001"
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
SELECTOR: Final = "tag:lab"


class MetalSite:
    """Machines ``m0``, ``m1``, ...; each installation gives a new host key."""

    def __init__(self, session: Session, count: int, **node: Any) -> None:
        self.session = session
        self.names = [f"m{number}.example.com" for number in range(count)]
        role = Role(barclamp="os", jig="install", flags=("destructive",))
        session.commit([Create(paths.role(OS), role)])
        for number, fqdn in enumerate(self.names):
            self.add(fqdn, number, **node)

    def add(self, fqdn: str, number: int, driver: str = "qemu", **fields: Any) -> None:
        """One more machine, which its BMC switched on."""
        mac = f"52:54:00:00:00:{number:02x}"
        known: dict[str, Any] = {"allow_install": True, "macs": (mac,), "tags": ("lab",), "alive": True}
        node = Node(addresses=(f"127.0.9.{number + 1}:2222",), **(known | fields))
        parts = [Create(paths.node(fqdn), node), Create(paths.fence(fqdn), Fence()), Create(paths.noderoles(fqdn))]
        self.session.commit([*parts, Create(paths.power(fqdn), MachinePower(driver=driver))])

    def more(self, count: int) -> None:
        """Further machines."""
        for number in range(len(self.names), len(self.names) + count):
            self.names.append(f"m{number}.example.com")
            self.add(self.names[-1], number)

    def publish(self, number: int = 1) -> str:
        """A build of the image that a server has; gives its path."""
        build = paths.build(IMAGE, f"{number:010}")
        upload = paths.upload(IMAGE, f"{number:010}", "admin1", "0000000001")
        self.session.ensure(paths.builds(IMAGE))
        sums = {"raw": {"sha256": "a" * 64, "size": 1 << 20}}
        record = Build(
            builder="b", builder_id="b", filename="f", state=BuildState.READY, state_time=1.0, checksums=sums,
            username="zuul",
        )  # fmt: skip
        self.session.commit([Create(build, record)])
        self.session.ensure(upload.rpartition("/")[0])
        self.session.commit(
            [Create(upload, Upload(state=UploadState.READY, state_time=1.0, format="raw", external_id="x"))]
        )
        return build

    # -- the records --

    @property
    def world(self) -> World:
        """As it is now."""
        return load_world(self.session)

    def use(self, fqdn: str) -> MachineUse | None:
        """The newest use of a machine."""
        found = self.world.of(MachineUse).get(fqdn)
        return None if found is None else found.record

    def used(self) -> dict[str, str]:
        """The machines in use, with the launched nodes that have them."""
        return {fqdn: each.record.pool_node for fqdn, each in choosing.uses(self.world)}

    def node(self, fqdn: str) -> Node:
        """Its record."""
        znode = self.session.get(paths.node(fqdn))
        assert znode is not None
        return codec.decode(Node, znode)

    def set(self, path: str, kind: type[Record], **fields: Any) -> None:
        """Write a record as a person does."""
        znode = self.session.get(path)
        assert znode is not None
        self.session.commit([Set(path, replace(codec.decode(kind, znode), **fields), znode.version)])

    # -- the part of the annealers --

    def waiting(self) -> list[str]:
        """The machines that are to be installed."""
        world = self.world
        found = ((fqdn, choosing.installer(world.nodes[fqdn])) for fqdn in self.names if fqdn in world.nodes)
        return [fqdn for fqdn, vertex in found if vertex is not None and vertex.record.state is State.TODO]

    def installs(self, fqdn: str, reason: str | None = None, **fields: Any) -> None:
        """The installation of a machine ends, with a failure if there is a reason."""
        world = self.world
        vertex, used = choosing.installer(world.nodes[fqdn]), self.use(fqdn)
        assert vertex is not None
        claimed = after(vertex.record, Event.CLAIM, 1.0)
        ended = after(claimed, Event.SUCCEED if reason is None else Event.FAIL, 1.0, reason=reason)
        over = self._installation(vertex, used, reason, ended.generation, **fields)
        before = world.of(Installation).get(fqdn)
        path = paths.installation(fqdn)
        written = Create(path, over) if before is None else Set(path, over, before.version)
        changes: list[Change] = [written, Set(paths.noderole(vertex.role, fqdn), ended, vertex.version)]
        if reason is None:
            view = world.nodes[fqdn]
            node = replace(self.node(fqdn), alive=True, host_keys=(f"{KEY}{ended.generation:06}",))
            changes.append(Set(paths.node(fqdn), node, view.version))
        self.session.commit(changes)

    def _installation(
        self, vertex: Vertex, used: MachineUse | None, reason: str | None, generation: int, **fields: Any
    ) -> Installation:
        known: dict[str, Any] = {
            "step": InstallStep.ALIVE if reason is None else InstallStep.IDENTIFIED,
            "image": used.image if used is not None else IMAGE,
        }
        return Installation(
            noderole=vertex.name, generation=generation, run="r", epoch=1, since=1.0, started=1.0, deadline=2.0,
            nonce="0" * 32, token_digest="0" * 64, reason=reason, **(known | fields),
        )  # fmt: skip

    def generations(self) -> int:
        """The number of installations that were begun, on all machines."""
        found = (choosing.installer(view) for view in self.world.nodes.values())
        return sum(vertex.record.generation for vertex in found if vertex is not None)

    def switches_all(self) -> None:
        """All requests for power are done: the machines are off."""
        for fqdn in self.names:
            znode = self.session.get(paths.power(fqdn))
            assert znode is not None
            record = codec.decode(MachinePower, znode)
            if record.request is not None:
                off = replace(record, request=None, off_since=None)
                self.session.commit([Set(paths.power(fqdn), off, znode.version)])

    def waiting_off(self) -> list[str]:
        """As ``waiting``; the machines are switched off first, where their use has ended."""
        self.switches_all()
        return self.waiting()

    def all_active(self, *but: str) -> None:
        """All other noderoles that annealers would run become ACTIVE."""
        world = self.world
        for vertex in world.vertices():
            if vertex.role not in (OS, *but) and vertex.record.state is State.TODO:
                ended = after(after(vertex.record, Event.CLAIM, 1.0), Event.SUCCEED, 1.0)
                self.session.commit([Set(paths.noderole(vertex.role, vertex.node.name), ended, vertex.version)])

    def ends_cancelled(self, fqdn: str) -> None:
        """The run that is to be ended on a machine ends."""
        vertex = self.world.nodes[fqdn].busy
        assert vertex is not None
        assert vertex.record.cancel_reason is not None
        moved = settle({vertex: after(vertex.record, Event.FAIL, 1.0, reason="cancelled")}, 1.0)
        self.session.commit([Set(paths.noderole(vertex.role, fqdn), moved[vertex], vertex.version)])

    def claims(self, fqdn: str, role: str = OS) -> None:
        """An annealer begins a noderole."""
        vertex = self.world.nodes[fqdn].noderoles[role]
        record = after(vertex.record, Event.CLAIM, 1.0)
        self.session.commit([Set(paths.noderole(role, fqdn), record, vertex.version)])

    def bind(self, fqdn: str, role: str, **fields: Any) -> None:
        """A noderole of a person."""
        record = NodeRole.of(state=State.ACTIVE, since=1.0, **fields)
        path = paths.noderole(role, fqdn)
        self.session.commit([Create(path, record), Create(paths.runs(role, fqdn))])


def provider(*labels: str, name: str = "rack", **keys: Json) -> dict[str, Json]:
    """The section of a provider with one pool ``main``; ``keys`` are of the pool."""
    offered: list[Json] = [{"name": each, "diskimage": IMAGE} for each in labels or ("small",)]
    pool = {"name": "main", "selector": SELECTOR, "labels": offered} | {k.replace("_", "-"): v for k, v in keys.items()}
    return {"name": name, "driver": "metal", "pools": [pool]}


class PlayedTurns:
    """The turns of a launcher, and the annealers, on a thread of their own. A context manager."""

    def __init__(self, site: MetalSite) -> None:
        self._site, self._wake, self._over = site, threading.Event(), False
        self.questions = FleetQuestions(site.session, self._wake.set)
        self._cache = Cache(site.session, World(), self._wake.set)
        self._thread = threading.Thread(target=self._turn, daemon=True)

    def __enter__(self) -> PlayedTurns:
        self._cache.load()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()

    def _turn(self) -> None:
        while not self._over:
            self._wake.wait(0.5)
            self._wake.clear()
            self._cache.refresh()
            while self.questions.answer(self._cache):
                self._cache.refresh()
            for fqdn in self._site.waiting():
                self._site.installs(fqdn)
            self._site.switches_all()
