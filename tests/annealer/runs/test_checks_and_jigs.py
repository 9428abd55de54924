"""What an annealer orders of jigs for a check, how many it has at once, and how one ends that is cancelled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.jigs import Detached, Failed, Order, Outcome, Succeeded
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Drift, PendingCheck
from nodepool_ocb.model.records import Change, Node, NodeRole, Role, Set, State
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.runs.test_old_runs import annealing
from tests.journeys.fleet import Fleet

NODES = [f"n{number}.example.com" for number in range(1, 7)]
SLOTS = 4


class Mute:
    """A jig that knows no orders to check."""

    name, instant, attaches = "mute", False, False

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def run(self, order: Order, stop: threading.Event) -> Outcome:  # noqa: ARG002
        self.orders.append(order)
        return Succeeded({**order.attributes, "done": len(self.orders)})

    def cancel(self, order: Order) -> None: ...
    def close(self) -> None: ...


class Looking(Mute):
    """One that knows them: a check goes on until it is let go or stopped, and finds drift."""

    name, checks = "looking", True

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.at_work: Counter[str] = Counter()

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        if not order.check:
            return super().run(order, stop)
        self.at_work[order.node] += 1
        while not self.go_on.wait(0.01):
            if stop.is_set():
                return Detached()
        return Failed("exit code 2", exit_code=2)


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as made:
        for fqdn in NODES:
            made.add_node(fqdn, Node(virtual=True))
        for jig in ("mute", "looking"):
            made.add_role(jig, Role(barclamp="fleet", jig=jig, check="true"))
        yield made


def checked(fleet: Fleet, noderole: str, drift: Drift) -> None:
    fleet.until(lambda: fleet.record(noderole).drift is drift, f"{noderole} is found {drift}")
    assert fleet.state(noderole) is State.ACTIVE


def test_an_order_to_check_never_reaches_a_jig_that_knows_none(fleet: Fleet) -> None:
    noderole, jig = fleet.bind("mute", NODES[0]), Mute()
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        fleet.until_state(noderole, State.ACTIVE)
        fleet.happens(noderole, Event.CHECK)
        checked(fleet, noderole, Drift.UNKNOWN)
    assert [order.check for order in jig.orders] == [False]


def test_a_check_that_is_cancelled_ends_as_unknown_and_not_in_error(fleet: Fleet) -> None:
    noderole, jig = fleet.bind("looking", NODES[0]), Looking()
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        fleet.until_state(noderole, State.ACTIVE)
        run = fleet.record(noderole).run
        fleet.happens(noderole, Event.CHECK)
        fleet.until(lambda: bool(jig.at_work), "it is checked")
        fleet.happens(noderole, Event.CANCEL)
        checked(fleet, noderole, Drift.UNKNOWN)
        assert fleet.record(noderole).run == run


class Hasty(Looking):
    """One that answers what it has when it is stopped."""

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        outcome = super().run(order, stop)
        return outcome if isinstance(outcome, Succeeded) else Failed("exit code 2", exit_code=2)


def test_a_check_that_ends_while_it_is_cancelled_has_found_nothing(fleet: Fleet) -> None:
    noderole, jig = fleet.bind("looking", NODES[0]), Hasty()
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        fleet.until_state(noderole, State.ACTIVE)
        fleet.happens(noderole, Event.CHECK)
        fleet.until(lambda: bool(jig.at_work), "it is checked")
        fleet.happens(noderole, Event.CANCEL)
        checked(fleet, noderole, Drift.UNKNOWN)


def test_a_refresh_that_is_asked_for_during_a_check_runs_behind_it(fleet: Fleet) -> None:
    noderole, jig = fleet.bind("looking", NODES[0]), Looking()
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        fleet.until_state(noderole, State.ACTIVE)
        fleet.happens(noderole, Event.CHECK)
        fleet.until(lambda: bool(jig.at_work), "it is checked")
        fleet.happens(noderole, Event.REFRESH)
        jig.go_on.set()
        fleet.until(lambda: len(jig.orders) == 2, "it runs again")
        fleet.until(lambda: not fleet.record(noderole).refresh, "that has ended")
    record = fleet.record(noderole)
    assert (record.state, record.drift) == (State.ACTIVE, None), "nobody has looked since it ran"
    assert [run.outcome for run in fleet.runs(noderole).values()] == ["succeeded", "drifted", "succeeded"]


def test_checks_leave_one_slot_in_four_to_what_people_wait_for(fleet: Fleet) -> None:
    jig = Looking()
    noderoles = [fleet.bind("looking", fqdn) for fqdn in NODES[:5]]
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        for noderole in noderoles:
            fleet.until_state(noderole, State.ACTIVE)
        for noderole in noderoles:
            fleet.happens(noderole, Event.CHECK)
        fleet.until(lambda: len(jig.at_work) == SLOTS - 1, "as many as may be are checked")
        late = fleet.bind("looking", NODES[5])
        fleet.until_state(late, State.ACTIVE)
        assert len(jig.at_work) == SLOTS - 1
        jig.go_on.set()
        for noderole in noderoles:
            checked(fleet, noderole, Drift.DRIFTED)


def test_a_check_calls_no_hook_and_waits_for_no_code_of_any(fleet: Fleet) -> None:
    fleet.add_role(
        "hooked", Role(barclamp="fleet", jig="looking", check="true", type="Hooked", hooks=("on_transition",))
    )
    noderole, jig = fleet.bind("hooked", NODES[0]), Looking()
    jig.go_on.set()

    def changes(world: World) -> list[Change]:
        vertex = world.vertex(noderole)
        assert vertex is not None
        asked = NodeRole.of(
            state=State.ACTIVE, since=1.0, deployment=vertex.record.deployment, refresh=True, check=PendingCheck()
        )
        return [Set(paths.noderole(vertex.role, vertex.node.name), asked, vertex.version)]

    fleet.write(changes)
    with Proxy(*fleet.server.ports) as proxy, annealing(fleet, proxy, jig, SLOTS):
        checked(fleet, noderole, Drift.DRIFTED)
