"""Our launcher stops in the middle of everything, and Nodepool 11's launcher goes on: nothing is lost, no slot has two nodes.

The steps between are those that docs/from-nodepool.md prints.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Json, NodeRole, Role, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.locks import Lock
from nodepool_ocb.testing.machines import Farm
from tests.interop.nodepool_launcher import SECONDS, Nodepool11, rack, states, store
from tests.interop.printed_steps import PrintedSteps, document
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long

COUNT: Final = 13  # of machines
DEAD: Final = 2  # this one does not answer
TESTED: Final = (3, 4, 5)  # these have the label with a role; the test plays the annealer
SMALL: Final = COUNT - len(TESTED)  # all others
CLAIMS: Final = 20  # that the test tries to see in time
HANGING_SECONDS: Final = 60  # that our launcher waits for a frozen machine
LABELS: Final[list[dict[str, Json]]] = [{"name": "small"}, {"name": "tested", "roles": ["dns"]}]
MIGRATE, RETURN = "Migrate a launcher", "Return of a launcher"


class SharedSite:
    """Some machines, a launcher of each product, and a person with the commands of both."""

    def __init__(self, fleet: LauncherFleet, farm: Farm, proxy: TlsProxy, nodepool11: Path) -> None:
        self.fleet, self.farm = fleet, farm
        provider = rack(farm, COUNT)
        for machine in provider["pools"][0]["nodes"]:
            machine["timeout"] = HANGING_SECONDS
        for number in TESTED:
            provider["pools"][0]["nodes"][number]["labels"] = ["tested"]
        self.peer = Nodepool11(nodepool11, proxy, fleet, provider)
        file = yaml.safe_load(self.peer.file.read_text())
        self.peer.file.write_text(yaml.safe_dump({**file, "labels": [{"name": each["name"]} for each in LABELS]}))
        fleet.session.commit([Create(paths.role("dns"), Role(barclamp="dns", jig="script"))])
        self.ours = fleet.launcher(provider, labels=LABELS, launch_workers=1)
        self._configure(proxy)
        self.running = ExitStack()
        self.process: subprocess.Popen[bytes] | None = None  # the launcher of Nodepool
        units: dict[str, Callable[[], object]] = {
            "stop nodepool-ocb-launcher": self.ours.close,
            "start nodepool-ocb-launcher": self.ours.start,
            "stop nodepool-launcher": self.running.close,
            "start nodepool-launcher": self._start_peer,
        }
        home = fleet.folder / "home"
        self.steps = PrintedSteps(home, self.ours.config, nodepool11, self.peer.file, units)

    def _configure(self, proxy: TlsProxy) -> None:
        """The configuration that the page prints, with the addresses and files of this test."""
        printed: dict[str, Any] = document("Migrate a builder") | document(MIGRATE)
        settings = yaml.safe_load(self.ours.config.read_text())
        settings["layout"] = printed["layout"]
        settings["ssh"] = self.farm.settings()
        assert printed["launcher"].keys() == {"nodepool"}
        copied = self.ours.config.parent / "copied.yaml"
        copied.write_text(yaml.safe_dump({**yaml.safe_load(self.peer.file.read_text()), "labels": LABELS}))
        settings["launcher"]["nodepool"] = str(copied)
        assert printed["zookeeper"].keys() == {"hosts", "tls"}
        settings["zookeeper"] |= {"hosts": proxy.hosts + self.fleet.chroot}
        settings["zookeeper"]["tls"] = {key: proxy.files[key] for key in printed["zookeeper"]["tls"]}
        self.ours.config.write_text(yaml.safe_dump(settings))

    def _start_peer(self) -> None:
        self.process = self.running.enter_context(self.peer.launcher())

    def close(self) -> None:
        self.running.close()

    def shown(self) -> dict[str, str]:
        """The state of each node, as both command lines show it, and as the records have it."""
        rows = json.loads(self.steps.command("nodepool-ocb lease list -o json"))
        found = {each["name"]: each["state"] for each in rows}
        assert found == self.peer.states() == states(self.fleet)
        return found

    def machine(self, node: str) -> int:
        """The number of a node's machine."""
        address = self.fleet.nodes()[node].interface_ip
        return next(number for number in range(COUNT) if self.farm.address(number)[0] == address)

    def places(self) -> list[str | None]:
        """The machine of each node, in order."""
        return sorted(node.hostname or "" for node in self.fleet.nodes().values())

    def idle(self) -> list[str]:
        """The nodes of label small that are ready, and are nobody's."""
        ready = self.fleet.nodes(PoolNodeState.READY).items()
        return [id for id, node in ready if node.allocated_to is None and node.type == ("small",)]


@pytest.fixture
def site(launchers: LauncherFleet, nodepool11: Path, tmp_path: Path) -> Iterator[SharedSite]:
    with Farm(COUNT, tmp_path / "farm") as farm, TlsProxy(launchers.server.port, tmp_path / "tls") as proxy:
        made = SharedSite(launchers, farm, proxy, nodepool11)
        try:
            yield made
        finally:
            made.close()
            for each in launchers.launchers:
                each.discard(10.0)


class Unfinished:
    """A node in each state, at the moment when our launcher is killed; and requests in most states."""

    def __init__(self, site: SharedSite) -> None:
        self.site, self.fleet = site, site.fleet
        site.farm.kill(DEAD)
        site.ours.start()
        self.until(lambda: len(site.idle()) == SMALL - 1, "all others are ready")
        (self.annealed, hanging), (_, lock) = self._annealed()
        used = self.fleet.request(*["small"] * 5)
        self.fleet.fulfilled(used, SECONDS)
        record = self.fleet.read(used)
        assert record is not None
        self.used, self._locks = record.nodes, self.fleet.take(used)
        self.fleet.delete(used)
        self.given = self.fleet.request("small")
        self.fleet.fulfilled(self.given, SECONDS)
        self.held, self.aborted, self.ready = site.idle()
        site.steps.command(f"nodepool-ocb lease hold {self.held}")
        self._begin_again(hanging, lock, PoolNodeState.USED, PoolNodeState.BUILDING)
        # its slot has a new node at once; the first one has the only worker
        self._begin_again(self.used[0], self._locks[0], PoolNodeState.DELETING, PoolNodeState.INIT)
        self.waiting = self.fleet.request("small", "small")
        self.until(lambda: self.fleet.nodes(PoolNodeState.FAILED), "the dead machine is tried")
        self._kill()

    def until(self, holds: Any, text: str) -> None:
        self.fleet.until(holds, text, SECONDS)

    def _annealed(self) -> tuple[tuple[str, ...], list[Lock]]:
        """Two nodes with an ACTIVE role, in use; the third one waits for its roles."""
        self.until(lambda: len(self.fleet.session.children(paths.NODES) or ()) == len(TESTED), "they are nodes of /ocb")
        for name in sorted(self.fleet.session.children(paths.NODES) or ())[:2]:
            path = paths.noderole("dns", name)
            self.until(lambda path=path: self.fleet.session.get(path), "its role is bound")
            znode = self.fleet.session.get(path)
            assert znode is not None
            active = replace(codec.decode(NodeRole, znode), state=State.ACTIVE)
            self.fleet.session.commit([Set(path, active, znode.version)])
        request = self.fleet.request("tested", "tested")
        self.fleet.fulfilled(request, SECONDS)
        record = self.fleet.read(request)
        assert record is not None
        locks = self.fleet.take(request)
        self.fleet.delete(request)
        return record.nodes, locks

    def _begin_again(self, node: str, lock: Lock, end: PoolNodeState, state: PoolNodeState) -> None:
        """The slot of a node is entered anew, and its machine hangs."""
        self.site.farm.freeze(self.site.machine(node))
        self.fleet.mark(node, end)
        self.fleet.locks.release(lock)
        self.until(lambda: len(self.fleet.nodes(state)) == 1, f"one is in {state}")

    def _kill(self) -> None:
        """No step of our launcher follows these of its clients."""
        _, self.locked, self.abandoned, self.returned, self.deleting = self.used
        self.site.ours.freeze()
        self.fleet.mark(self.returned, PoolNodeState.USED)
        for lock in self._locks[2:]:
            self.fleet.locks.release(lock)
        self.site.steps.command(f"nodepool-ocb lease delete --yes {self.deleting}")
        store(
            self.fleet, self.aborted, "aborted"
        )  # as our launcher writes it after 5 minutes without memory or descriptors
        self.site.ours.kill()

    def mend(self) -> None:
        """All machines answer."""
        for id in range(COUNT):
            self.site.farm.thaw(id)
        self.site.farm.start(DEAD)


def test_our_nodes_in_every_state_return_to_nodepools_launcher(site: SharedSite) -> None:
    story = Unfinished(site)
    before = site.shown()
    assert set(before.values()) == {str(state) for state in PoolNodeState} - {"deleted"}
    story.mend()
    story.until(lambda: _unlocked(site, story), "the session of the killed launcher ends")
    site.steps.run(RETURN)

    def settled() -> bool:
        found = states(site.fleet)
        return len(found) == COUNT and sorted(found.values()) == ["hold", "in-use", "in-use", *["ready"] * (COUNT - 3)]

    story.until(settled, "each unfinished slot is ready again, in a new node")
    assert site.places() == sorted(site.farm.address(number)[0] for number in range(COUNT)), "no slot has two nodes"
    site.fleet.fulfilled(story.waiting, SECONDS)
    after = site.shown()
    assert (after[story.held], after[story.locked], after[story.annealed]) == ("hold", "in-use", "in-use")
    for request in (story.given, story.waiting):
        site.fleet.give_back(request, site.fleet.take(request))
    story.until(lambda: len(site.idle()) == SMALL - 2, "the nodes of the requests are returned")
    assert not site.fleet.session.children(paths.REQUESTS)


def _unlocked(site: SharedSite, story: Unfinished) -> bool:
    """Whether no node but those of users has a lock."""
    rows = json.loads(site.steps.command("nodepool-ocb lease list -o json"))
    return {each["name"] for each in rows if each["holder"]} == {story.locked, story.annealed}


def test_the_printed_steps_move_nodes_to_our_launcher_and_back(site: SharedSite) -> None:
    fleet = site.fleet
    site.steps.command("systemctl start nodepool-launcher")
    fleet.until(lambda: len(fleet.nodes(PoolNodeState.READY)) == COUNT, "Nodepool made all nodes", SECONDS)
    first = fleet.request("small")
    fleet.fulfilled(first, SECONDS)
    locks = fleet.take(first)
    site.steps.command(f"nodepool hold {site.idle()[0]}")
    before = site.shown()

    said = site.steps.run(MIGRATE)
    check = next(output for command, output in said.items() if " config check " in command)
    assert "rack" in check
    assert site.shown() == before
    second = fleet.request("small")
    fleet.fulfilled(second, SECONDS)
    fleet.give_back(first, locks)
    fleet.until(lambda: len(fleet.nodes(PoolNodeState.READY)) == COUNT - 1, "the returned slot is ready again", SECONDS)
    middle = site.shown()

    site.steps.run(RETURN)
    assert site.shown() == middle
    fleet.give_back(second, fleet.take(second))
    fleet.until(lambda: len(site.idle()) == SMALL - 1, "the returned slot is ready again", SECONDS)
    third = fleet.request("small", "small")
    fleet.fulfilled(third, SECONDS)
    assert sorted(site.shown().values()) == ["hold", *["ready"] * (COUNT - 1)]
    assert site.places() == sorted(site.farm.address(number)[0] for number in range(COUNT)), "no slot has two nodes"


def test_a_request_that_nodepools_launcher_left_in_the_middle_is_served_by_ours(site: SharedSite) -> None:
    fleet = site.fleet
    site.steps.command("systemctl start nodepool-launcher")
    fleet.until(lambda: len(fleet.nodes(PoolNodeState.READY)) == COUNT, "Nodepool made all nodes", SECONDS)
    with deaf(site.farm, DEAD):
        request = fleet.request(*["small"] * SMALL)

        def hanging() -> bool:
            found = fleet.read(request)
            taken = [id for id, node in fleet.nodes().items() if node.allocated_to == request]
            return found is not None and found.state is RequestState.PENDING and len(taken) > 0

        fleet.until(hanging, "Nodepool waits for a machine", SECONDS)
        assert site.process is not None
        site.process.kill()
        before = site.shown()
    site.farm.start(DEAD)
    site.steps.run(MIGRATE)
    fleet.fulfilled(request, SECONDS)
    assert site.shown() == before, "each node is handed out as it was"
    fleet.give_back(request, fleet.take(request))
    fleet.until(lambda: len(site.idle()) == SMALL, "each slot is ready again", SECONDS)
    assert site.places() == sorted(site.farm.address(number)[0] for number in range(COUNT)), "no slot has two nodes"


def test_a_request_that_our_launcher_left_in_the_middle_is_served_by_nodepools(site: SharedSite) -> None:
    fleet = site.fleet
    site.ours.start()
    fleet.until(lambda: len(site.idle()) == SMALL, "all are ready", SECONDS)
    request = claimed(site)
    site.ours.kill()
    fleet.until(lambda: not fleet.session.children(paths.request_lock(request)), "its session ends", SECONDS)
    found = fleet.read(request)
    assert found is not None
    assert found.state is RequestState.PENDING
    site.steps.run(RETURN)
    (node,) = fleet.fulfilled(request, SECONDS)
    assert node.allocated_to == request
    fleet.give_back(request, fleet.take(request))
    fleet.until(lambda: len(site.idle()) == SMALL, "each slot is ready again", SECONDS)
    assert site.places() == sorted(site.farm.address(number)[0] for number in range(COUNT)), "no slot has two nodes"
    assert not fleet.session.children(paths.REQUESTS)


def claimed(site: SharedSite) -> str:
    """A request that our launcher has claimed, and does not serve: it is stopped as soon as the claim is seen."""
    fleet = site.fleet
    for _ in range(CLAIMS):
        site.ours.freeze()
        request = fleet.request("small")
        fleet.session.ensure(
            paths.request_lock(request)
        )  # as a client leaves it: no single transaction hands out the node
        fleet.session.watch(paths.request(request), partial(_stop_once, site, Event()))
        site.ours.thaw()
        fleet.until(partial(_begun, fleet, request), "our launcher begins", SECONDS)
        found = fleet.read(request)
        if found is not None and found.state is RequestState.PENDING:
            return request
        site.ours.thaw()
        fleet.give_back(request, fleet.take(request))
    raise AssertionError(f"none of {CLAIMS} claims was seen in time")


def _stop_once(site: SharedSite, stopped: Event, _kind: str, _path: str) -> None:
    """The event of a watch stops our launcher, unless an event before it did."""
    if not stopped.is_set():
        stopped.set()
        site.ours.freeze()


def _begun(fleet: LauncherFleet, request: str) -> bool:
    found = fleet.read(request)
    return found is not None and found.state is not RequestState.REQUESTED


@contextmanager
def deaf(farm: Farm, machine: int) -> Iterator[None]:
    """In place of a machine there is a host that answers no attempt to connect."""
    farm.unplug(machine)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(farm.address(machine))
        listener.listen(0)
        for _ in range(8):  # the queue of the kernel is full, and further attempts are dropped
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(farm.address(machine))
        yield
