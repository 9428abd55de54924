"""Every transaction of an annealer loses its answer while another writer writes: the report is ZooKeeper's outcome.

Each scene makes annealers write transactions of some kinds, each several times, so that each kind goes through each moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue import code
from nodepool_ocb.engine import powering
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, OcbError, Stale
from nodepool_ocb.jigs.jig import Detached, Party
from nodepool_ocb.jigs.ssh.probe import Alive, Unreachable
from nodepool_ocb.jigs.test import TestJig
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.power import MachinePower, PowerAction, PowerRequest
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Delete,
    DeploymentRole,
    Node,
    Role,
    RolloutPointer,
    Run,
    Set,
    State,
    TaskRunPointer,
)
from nodepool_ocb.provisioning import boot
from nodepool_ocb.store.client import codec, transaction
from nodepool_ocb.store.client.session import Session, Stats, Znode
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from nodepool_ocb_annealer import publishing, settling
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.driving import drivers
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.hooks import hooking
from nodepool_ocb_annealer.machines import probes
from nodepool_ocb_annealer.runs import tidying
from nodepool_ocb_annealer.runs.forbidden import Forbidden
from nodepool_ocb_annealer.webhook import batches, delivery, posting
from tests.annealer.tasks import task_staging
from tests.annealer.tasks.task_staging import LAB
from tests.annealer.webhook.posters import Receiver, write
from tests.journeys.answers import write_sites
from tests.journeys.answers.lost_answers import Ledger, Rival, Sparing, faults, table, untried
from tests.journeys.answers.staged_annealers import StagedAnnealer
from tests.journeys.fleet import DEPLOYMENT, Fleet, vertex_of
from tests.journeys.installing import BUILD, IMAGE, build
from tests.journeys.staging import LiveRollout, document
from tests.stories.test_annealer import package

POWERING: Final = "annealer.machines.powering.Powering"
AMPLE: Final = 5  # nodes: more than there are moments


class Stage:
    """A cluster of a scene; its annealers lose their answers, and ``fleet`` writes as a person does."""

    def __init__(self, fleet: Fleet, ledger: Ledger, exits: ExitStack) -> None:
        self.fleet, self.ledger = fleet, ledger
        self._exits, self._sessions = exits, set[Session]()
        exits.enter_context(ledger.watch(self._sessions.__contains__))
        patch, commit = exits.enter_context(pytest.MonkeyPatch.context()), fleet.session.commit

        def apart(changes: Sequence[Change]) -> Stats:
            """Not between a transaction of an annealer and the question about it."""
            with ledger.between:
                return commit(changes)

        patch.setattr(fleet.session, "commit", apart)

    def annealer(self, identity: str = "a1", **settings: Any) -> StagedAnnealer:
        made = StagedAnnealer(self.fleet.settings(30.0), identity, self.fleet.folder, **settings)
        self._sessions.add(made.session)
        return self._exits.enter_context(made)

    def nodes(self, count: int = AMPLE, **fields: Any) -> list[str]:
        names = [f"n{len(self.fleet.nodes) + number}.example.com" for number in range(count)]
        for fqdn in names:
            self.fleet.add_node(fqdn, Node(**{"virtual": True, "alive": True, "deployment": DEPLOYMENT, **fields}))
        return names

    def bound(self, role: str, jig: str = "test", parents: tuple[str, ...] = (), **fields: Any) -> list[str]:
        """The role, on every node."""
        self.fleet.add_role(role, Role(barclamp="fleet", jig=jig, requires=parents, **fields))
        return [self.fleet.bind(role, fqdn, [f"{each}@{fqdn}" for each in parents]) for fqdn in self.fleet.nodes]

    def write(self, noderole: str, **fields: Any) -> None:
        """Write these fields of a noderole, as no verb does."""

        def changes(world: World) -> list[Change]:
            vertex = vertex_of(world, noderole)
            return [Set(paths.noderole(vertex.role, vertex.node.name), vertex.record.amended(**fields), vertex.version)]

        self.fleet.write(changes)

    def until_all(self, noderoles: list[str], state: State = State.ACTIVE) -> None:
        self.fleet.until(lambda: {self.fleet.state(each) for each in noderoles} == {state}, f"all are {state}")

    def tried(self, *sites: str) -> Callable[[], bool]:
        """Whether each of these sites went through each moment."""
        return lambda: not untried(list(self.ledger.reports), sites)

    def until_tried(self, *sites: str) -> None:
        self.fleet.until(self.tried(*sites), f"{', '.join(untried(list(self.ledger.reports), sites))}")

    def again(self, do: Callable[[], object], *sites: str) -> None:
        """Do it until these sites went through each moment."""
        for _ in range(30):
            if self.tried(*sites)():
                return
            do()
        assert self.tried(*sites)(), untried(self.ledger.reports, sites)


@contextmanager
def on_stage(zookeeper: Server, chroot: str, folder: Path) -> Iterator[Stage]:
    folder.mkdir()
    with ExitStack() as exits:
        fleet = exits.enter_context(Fleet(zookeeper, chroot, folder, machines=0))
        ledger = Ledger(fleet.settings(30.0), Rival.TOUCH, sparing=Sparing.SITE, spared=())
        ledger.about = folder.name
        yield Stage(fleet, exits.enter_context(ledger), exits)


# -- scenes --


def runs(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Claims, runs one after the other on a node, and noderoles with nothing to run."""
    stage.nodes()
    stage.bound("a0", "noop")
    stage.bound("a1", parents=("a0",))
    stage.bound("a2", parents=("a1",))
    last = stage.bound("a3", "noop", parents=("a2",))
    stage.annealer()
    stage.until_all(last)
    stage.fleet.add_role("alone", Role(barclamp="fleet", jig="test"))
    stage.until_all([stage.fleet.bind("alone", fqdn) for fqdn in stage.nodes()])


def takeovers(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Runs of an annealer that died, and runs that are given back."""
    stage.nodes()
    noderoles = stage.bound("long", parameters={"delay": 600})
    first = stage.annealer()
    stage.until_all(noderoles, State.TRANSITION)
    first.die()
    second = stage.annealer("a2")
    stage.until_tried("annealer.runs.executor.Executor.begin: taken over")

    def release() -> None:
        before = len(stage.ledger.reports)
        second.have(lambda annealer: annealer.claims.executor.release())
        stage.fleet.until(lambda: len(stage.ledger.reports) > before, "they are given back")

    stage.again(release, "annealer.runs.executor.Executor._give_back: release")


def unreadable_attributes(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Runs that cannot be prepared: of a new claim, and of one that is taken over."""
    stage.nodes()
    noderoles = stage.bound("long", parameters={"delay": 600})
    first = stage.annealer()
    stage.until_all(noderoles, State.TRANSITION)
    first.die()
    for fqdn in stage.fleet.nodes:
        stage.fleet.session.commit([Create(paths.user("long", fqdn), "no attributes")])
    stage.nodes()
    stage.fleet.add_role("bad", Role(barclamp="fleet", jig="test"))
    for fqdn in stage.fleet.nodes[AMPLE:]:
        stage.fleet.bind("bad", fqdn)
        stage.fleet.session.commit([Create(paths.user("bad", fqdn), "no attributes")])
    stage.annealer("a2")
    stage.until_tried(
        "annealer.runs.executor.Executor._give_back: leave", "annealer.runs.executor.Executor._give_back: put_back"
    )


def lost_claims(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Claims of this annealer that it does not know, and noderoles in TRANSITION without a claim."""
    stage.nodes()
    stage.bound("above")
    stage.bound("below", parents=("above",))
    for fqdn in stage.fleet.nodes:
        for role, state in (("above", State.ERROR), ("below", State.TRANSITION)):
            stage.write(f"{role}@{fqdn}", state=state)
    stage.annealer()
    stage.until_tried("annealer.claims.Claims._let_go")
    for fqdn in stage.fleet.nodes:
        claim = Claim(annealer="a1", noderole=f"above@{fqdn}", run="0000000001-x", epoch=1, since=1.0)
        stage.fleet.session.commit([Create(paths.claim(fqdn), claim)])
    stage.until_tried("annealer.claims.Claims._give_back")


def folders_and_old_runs(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Folders of runs that were deleted by hand, and records of old runs."""
    patch.setattr(tidying, "TIDY_SECONDS", 0.05)
    stage.nodes()
    noderoles = stage.bound("a1")
    for fqdn in stage.fleet.nodes:
        stage.fleet.session.commit([Delete(paths.runs("a1", fqdn), 0)])
    annealer = stage.annealer()
    stage.until_all(noderoles)
    for noderole in noderoles:
        role, fqdn = paths.split_noderole(noderole)
        old = Run(annealer="a", started=1.0, ended=1.0, outcome="failed", generation=1, epoch=1)
        stage.fleet.session.commit([Create(paths.run(role, fqdn, f"{each:010}-x"), old) for each in range(20, 40)])

    left = itertools.cycle(noderoles)

    def drop() -> None:
        with suppress(OcbError):
            tidying.drop_old_runs(annealer.session, [next(left)])

    stage.again(drop, *DISCARD)


def registrations(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Annealers register, and say another thing of themselves."""
    annealers = [stage.annealer(f"a{number}") for number in range(3)]
    stage.fleet.until(lambda: stage.fleet.living() == 3, "all are registered")

    def change() -> None:
        number = len(stage.ledger.reports)
        annealers[0].have(lambda annealer: annealer.registration.change(pages=f"127.0.0.1:{number}"))
        stage.fleet.until(lambda: len(stage.ledger.reports) > number, "it is written")

    stage.again(change, f"{REGISTRATION}#3")

    def displace() -> None:
        """Another session has the name."""
        path = paths.daemon("annealer", "a0")
        znode = stage.fleet.session.get(path)
        assert znode is not None
        record = codec.decode(Daemon, znode)
        with suppress(OcbError):
            stage.fleet.session.commit([Delete(path, znode.version), Create(path, record, ephemeral=True)])
        number = len(stage.ledger.reports)
        annealers[0].have(lambda annealer: annealer.registration.compare(None))
        stage.fleet.until(lambda: len(stage.ledger.reports) > number, "it registers again")

    stage.again(displace, f"{REGISTRATION}#2")


def machines(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """One annealer: machines come, show a key, and go."""
    patch.setattr(probes, "CONFIRM_SECONDS", 0.02)
    came = stage.nodes(virtual=False, alive=False, addresses=("192.0.2.1",))
    showed = stage.nodes(virtual=False, alive=True, addresses=("192.0.2.1",))
    gone = stage.nodes(virtual=False, alive=True, addresses=("192.0.2.1",))
    annealer = stage.annealer()
    annealer.prober.answers |= dict.fromkeys(showed, Alive(KEY))
    annealer.prober.answers |= dict.fromkeys(gone, REFUSED)
    stage.fleet.until(lambda: all(stage.fleet.node(each).alive for each in came), "they came")
    stage.fleet.until(lambda: all(stage.fleet.node(each).host_keys for each in showed), "their keys are pinned")
    stage.fleet.until(lambda: not any(stage.fleet.node(each).alive for each in gone), "they went")


def suspicions(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Two annealers: one of them suspects nodes that the other reaches."""
    patch.setattr(probes, "CONFIRM_SECONDS", 0.02)
    nodes = stage.nodes(4 * AMPLE, virtual=False, alive=True, addresses=("192.0.2.1",))
    one, _other = stage.annealer("a1"), stage.annealer("a2")
    stage.fleet.until(lambda: stage.fleet.living() == 2, "both are registered")
    one.prober.answers |= dict.fromkeys(nodes, REFUSED)
    stage.until_tried("annealer.machines.judging.Judging.suspect", "annealer.machines.judging.Judging.answered")


def deaths_and_settling(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Nodes that died in part, and noderoles that their neighbours move."""
    patch.setattr(settling, "SETTLING_SECONDS", 0.02)
    dying = stage.nodes()
    stage.bound("a1")
    for fqdn in dying:
        stage.write(f"a1@{fqdn}", state=State.ACTIVE)
        stage.fleet.set_node(fqdn, virtual=False, alive=False, dying=True, addresses=("192.0.2.1",))
    held = stage.nodes()
    stage.fleet.add_role("b", Role(barclamp="fleet", jig="test", requires=("a1",)))
    annealer = stage.annealer()
    annealer.prober.answers |= dict.fromkeys(dying, REFUSED)
    stage.until_tried("annealer.settling.Reconciler.go_on_dying")
    left = list(held)

    def unsettled() -> None:
        fqdn = left.pop()
        above = stage.fleet.bind("a1", fqdn)
        stage.write(above, state=State.ACTIVE)
        below = stage.fleet.bind("b", fqdn, [above])
        stage.fleet.until_state(below, State.ACTIVE)

    stage.again(unsettled, "annealer.settling.Reconciler.write")


HOOKS: Final = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_transition(self, hooked):
        hooked.set_system[hooked.subject] = {"told": hooked.record.state}

    def on_active(self, hooked):
        hooked.set_system[hooked.subject] = {"active": True}

    def on_node_change(self, hooked):
        hooked.set_node["bootenv"] = "rescue"

    def on_deployment_create(self, hooked):
        hooked.set_system[hooked.subject] = {"made": hooked.subject}

    def run(self, order):
        return dict(order.attributes)
"""


def hooks(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Hooks of noderoles, nodes and deployments, hooks that are gone, and a role that leaves a deployment."""
    patch.setattr(hooking, "AGAIN_SECONDS", 0.05)
    patch.syspath_prepend(str(package(stage.fleet.folder / "site", HOOKS)))
    code.look_again()
    fleet = stage.fleet
    stage.nodes()
    known = ("on_transition", "on_active", "on_node_change", "on_deployment_create")
    noderoles = stage.bound("watched", "role-provided", hooks=known)
    stage.annealer()
    stage.until_all(noderoles)
    stage.until_tried("annealer.hooks.calls.on_transition")
    for noderole in noderoles:
        stage.write(noderole, hooks=("on_active",))
    stage.until_tried(f"{HOOKING}: hook-noderole")
    for noderole in noderoles:
        stage.write(noderole, hooks=("on_error",))
    stage.until_tried("annealer.hooks.noderoles.job")
    for fqdn in fleet.nodes:
        fleet.set_node(fqdn, hooks=("on_node_change",))
    stage.until_tried(f"{HOOKING}: hook-node")
    fleet.add_role("gone", Role(barclamp="fleet", jig="noop"))

    def role_of(role: str, **fields: Any) -> None:
        path = paths.deployment_role(DEPLOYMENT, role)
        fleet.session.commit([Create(path, DeploymentRole(**fields))])
        fleet.until(lambda: not (there := fleet.session.get(path)) or not hooked(there), "its hook has run")
        fleet.until(lambda: deleted(path), "the role has left")

    def deleted(path: str) -> bool:
        if (znode := fleet.session.get(path)) is not None:
            try:
                fleet.session.commit([Delete(path, znode.version)])
            except Stale:  # the rival wrote it meanwhile
                return False
        return True

    def hooked(znode: Znode) -> bool:
        record = codec.decode(DeploymentRole, znode)
        return bool(record.hooks) or record.deleting

    stage.again(lambda: role_of("watched", hooks=("on_deployment_create",)), f"{HOOKING}: hook-deployment")
    stage.again(lambda: role_of("gone", hooks=("on_deployment_create",)), "annealer.hooks.deployments.job")
    stage.again(lambda: role_of("gone", deleting=True), "annealer.hooks.deployments._delete")


def schedules(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Checks by a schedule."""
    stage.nodes(virtual=False, addresses=("192.0.2.1",))
    for noderole in stage.bound("a1", check="true"):
        stage.write(noderole, state=State.ACTIVE, since=1.0)
    every_minute = Checks(schedule="* * * * *", since=1.0)
    stage.fleet.write(
        lambda world: [
            Set(
                paths.deployment(DEPLOYMENT),
                replace(world.deployments[DEPLOYMENT].record, checks=every_minute),
                world.deployments[DEPLOYMENT].version,
            )
        ]
    )
    stage.annealer()
    stage.until_tried("annealer.checking.CheckScheduler._ask")


def power(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """Requests to switch machines that a person must switch: each is taken, and fails."""
    stage.nodes()
    stage.annealer()
    session = stage.fleet.session

    def ask() -> None:
        powers, now = powering.powers(load_world(session)), session.now()
        for number, fqdn in enumerate(stage.fleet.nodes):
            request = PowerRequest(
                id=f"{number:016x}", action=PowerAction.ON, by="ann", since=now, until=now + powering.REQUEST_SECONDS
            )
            if fqdn not in powers:
                session.commit([Create(paths.power(fqdn), MachinePower(driver="manual", request=request))])
            elif powers[fqdn].record.request is None:
                again = replace(powers[fqdn].record, request=request)
                session.commit([Set(paths.power(fqdn), again, powers[fqdn].version)])
        stage.fleet.until(
            lambda: not any(each.record.request for each in powering.powers(load_world(session)).values()), "they end"
        )

    stage.again(ask, f"{POWERING}._write", f"{POWERING}._ended")


def publications(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Noderoles that never publish what they get: they are asked again and again."""
    patch.setattr(publishing, "PAUSE_SECONDS", 0.02)
    patch.setattr(publishing, "AGAIN_SECONDS", 0.05)
    stage.nodes(virtual=False, addresses=("192.0.2.1",))
    for noderole in stage.bound(boot.PUBLISHING[0]):
        stage.write(noderole, state=State.ACTIVE, since=1.0)
    stage.annealer()
    stage.until_tried("annealer.publishing.PublishingSweep._ask")


def journal_entries(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Entries by an annealer, and the oldest that go."""
    annealer = stage.annealer()
    forbidden, count = Forbidden(annealer.session), itertools.count()
    stage.again(
        lambda: forbidden.note("a@n.example.com", next(count), "tasks.sources", "a test"), "store.journal.write"
    )
    patch.setattr(limits, "ENTRIES", 2)
    patch.setattr(limits, "ENTRIES_LEFT", 1)
    stage.again(lambda: forbidden.note("a@n.example.com", next(count), "tasks.sources", "a test"), *DISCARD)


def webhook(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Its cursor: begun, moved, and with a note of a failure."""
    patch.setattr(batches, "wait_seconds", lambda *_: 0.02)
    patch.setattr(posting, "AGAIN_SECONDS", 0.02)
    patch.setattr(delivery, "LONG_SECONDS", 0.0)
    session = stage.fleet.session
    with Receiver() as receiver:
        stage.annealer(webhook={"url": receiver.url})

        def begin_anew() -> None:
            number = len(stage.ledger.reports)
            if (znode := session.get(paths.WEBHOOK)) is not None and znode.data:
                with suppress(Stale):  # the rival wrote it meanwhile; the next call begins anew
                    session.commit([Set(paths.WEBHOOK, None, znode.version)])
            write(session)
            stage.fleet.until(lambda: len(stage.ledger.reports) > number, "it begins")

        def deliver() -> None:
            number = len(stage.ledger.reports)
            write(session)
            stage.fleet.until(lambda: len(stage.ledger.reports) > number, "it is delivered")

        stage.again(begin_anew, f"{DELIVERY}._begun")
        stage.again(deliver, f"{DELIVERY}.attempt")
        receiver.answer = lambda _: 500
        stage.again(deliver, f"{DELIVERY}._note")


class Execution(NamedTuple):
    """How a scene begins and looks at rollouts, or at runs of tasks."""

    root: str
    drivers: Callable[[Annealer], Drivers[Any]]
    begin: Callable[[Fleet], str]  # gives the path of its record

    def pointer(self, deployment: str) -> str:
        return f"{self.root}/{deployment}"


def _rollout(fleet: Fleet) -> str:
    """A rollout of a node whose noderole ends when the scene says so."""
    for fqdn in fleet.nodes:
        world = load_world(fleet.session)
        vertex = vertex_of(world, f"a1@{fqdn}")
        proposed = replace(vertex.record, state=State.PROPOSED)
        fleet.session.commit([Set(paths.noderole("a1", fqdn), proposed, vertex.version)])
    groups = [{"name": "all", "critical": True, "selectors": [{"node_names": ["n0"]}]}]
    begun = LiveRollout(fleet, document(groups, [{"name": "deploy", "timeout_seconds": 600.0}]))
    return paths.rollout(DEPLOYMENT, begun.id)


def _task_run(fleet: Fleet) -> str:
    text = "- {id: deploy, type: stage}\n- {id: one, type: shell, role: '*', required_for: [deploy], parameters: {cmd: x}}\n"
    nodes = {fqdn.partition(".")[0]: ["web"] for fqdn in fleet.nodes}
    return paths.task_run(LAB, task_staging.begin(fleet.session, text, nodes))


def driven(execution: Execution, deployment: str) -> Callable[[Stage, pytest.MonkeyPatch], None]:
    """Executions that an annealer takes, drives, hands over, closes and lets go."""

    def scene(stage: Stage, patch: pytest.MonkeyPatch) -> None:
        for name in ("AGAIN_SECONDS", "BROKEN_SECONDS", "AWAY_SECONDS", "QUIET_SECONDS"):
            patch.setattr(drivers, name, 0.02)
        fleet, pointer = stage.fleet, execution.pointer(deployment)
        what = "rollout" if execution.root == paths.ROLLOUTS else "run of tasks"
        sites = {name: f"{DRIVERS}.{name}: {what}" for name in DRIVEN}
        if deployment == LAB:
            task_staging.build(fleet.session, {"n0": ["web"]})
            fleet.nodes.append("n0.example.com")
        else:
            stage.nodes(1, virtual=False, addresses=("192.0.2.1",))
            stage.bound("a1")
        annealer = stage.annealer()

        def stored() -> tuple[Any, int]:
            kind = RolloutPointer if execution.root == paths.ROLLOUTS else TaskRunPointer
            return pointers.read(fleet.session, pointer, kind)

        def over() -> bool:
            return bool(stored()[0].over)

        def write(**fields: Any) -> None:
            """Into the pointer."""
            known, version = stored()
            with suppress(Stale):
                fleet.session.commit([Set(pointer, replace(known, **fields), version)])

        def carried_out() -> None:
            execution.begin(fleet)
            fleet.until(over, "it is over")

        def reopened() -> None:
            """The pointer says that it is not over."""
            write(over=False)
            fleet.until(over, "it is closed")

        stage.again(carried_out, sites["_take"], sites["_write"])
        stage.again(reopened, sites["_close"])

        patch.setattr(TestJig, "run", lambda _, __, stop: (stop.wait(), Detached())[1])
        record = execution.begin(fleet)

        def is_driven() -> bool:
            return deployment in execution.drivers(annealer.annealer)._driven

        def released(before: Callable[[], object] = lambda: None) -> None:
            fleet.until(is_driven, "it is driven")
            number = len(stage.ledger.reports)
            annealer.have(lambda mind: (before(), execution.drivers(mind).release()))
            fleet.until(lambda: len(stage.ledger.reports) > number or not is_driven(), "it is handed over")

        stage.again(released, sites["_hand_over"])
        stage.again(lambda: released(write), sites["_handed"])
        patch.setattr(type(execution.drivers(annealer.annealer)._work), "read", _unreadable)
        annealer.have(lambda mind: execution.drivers(mind).release())

        def let_go() -> None:
            write(driver="a1")
            fleet.until(lambda: stored()[0].driver != "a1", "it is let go")

        stage.again(let_go, sites["_let_go"])
        assert record

    scene.__name__ = execution.root.strip("/").replace("/", "_")
    return scene


def _unreadable(*_: object) -> None:
    raise Invalid("a test says that it cannot be read")


ROLLOUT = Execution(paths.ROLLOUTS, lambda annealer: annealer.rolling, _rollout)
TASK_RUN = Execution(paths.TASK_RUNS, lambda annealer: annealer.tasks, _task_run)
DRIVERS: Final = "annealer.driving.drivers.Drivers"
DRIVEN: Final = ("_close", "_hand_over", "_handed", "_let_go", "_take", "_write")


def large_ends(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """The end of a run that has no room beside what it does to others is written alone."""
    stage.nodes()
    above = stage.bound("above", parameters={"delay": 0.3})
    for number in range(30):
        stage.bound(f"below{number}", parents=("above",))
    patch.setattr(transaction, "TRANSACTION_CHANGES", 20)
    stage.annealer(slots=1)
    stage.until_tried("annealer.runs.executor.Executor._write: alone")
    stage.until_all(above)


def installations(stage: Stage, _: pytest.MonkeyPatch) -> None:
    """The first records of installations, and their next steps."""
    session = stage.fleet.session
    session.ensure(paths.builds(IMAGE))
    session.commit([Create(paths.build(IMAGE, BUILD), build())])
    stage.nodes(allow_install=True)
    stage.bound("os", "install", flags=("destructive",), template={"provisioner": {"image": IMAGE}})
    stage.annealer()
    stage.until_tried("annealer.runs.installing.Installer._send")


DISCARD: Final = ("store.subtree.discard#1", "store.subtree.discard#2")
REGISTRATION: Final = "daemon.registration.Registration._replace"
HOOKING: Final = "annealer.hooks.hooking.Hooking._send"
DELIVERY: Final = "annealer.webhook.delivery"
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVyPYZgzPMuQ4nXlnXYOPcsCj4AOoDn2bv0E7nF0q0x"
REFUSED: Final = Unreachable("connect", "connection refused", begun=False, party=Party.MACHINE)

#: What each scene puts through every moment.
SCENES: Final[dict[Callable[[Stage, pytest.MonkeyPatch], None], tuple[str, ...]]] = {
    runs: (
        "annealer.claims.Claims._complete_now",
        "annealer.runs.executor.Executor.begin: new",
        "annealer.runs.executor.Executor._write: together",
        "annealer.runs.executor.Executor._write: passed on",
        "annealer.runs.executor.Executor._write: at once",
    ),
    takeovers: (
        "annealer.runs.executor.Executor.begin: taken over",
        "annealer.runs.executor.Executor._give_back: release",
    ),
    unreadable_attributes: (
        "annealer.runs.executor.Executor._give_back: leave",
        "annealer.runs.executor.Executor._give_back: put_back",
    ),
    lost_claims: ("annealer.claims.Claims._give_back", "annealer.claims.Claims._let_go"),
    folders_and_old_runs: ("annealer.writing.Writing._restore", *DISCARD),
    registrations: (f"{REGISTRATION}#1", f"{REGISTRATION}#2", f"{REGISTRATION}#3"),
    machines: (
        "annealer.machines.probes.Probing._alive#1",
        "annealer.machines.probes.Probing._alive#2",
        "annealer.machines.probes.Probing._failed",
    ),
    suspicions: ("annealer.machines.judging.Judging.suspect", "annealer.machines.judging.Judging.answered"),
    deaths_and_settling: ("annealer.settling.Reconciler.go_on_dying", "annealer.settling.Reconciler.write"),
    hooks: (
        "annealer.hooks.calls.on_transition",
        "annealer.hooks.noderoles.job",
        "annealer.hooks.deployments.job",
        "annealer.hooks.deployments._delete",
        f"{HOOKING}: hook-noderole",
        f"{HOOKING}: hook-node",
        f"{HOOKING}: hook-deployment",
    ),
    schedules: ("annealer.checking.CheckScheduler._ask",),
    power: (f"{POWERING}._write", f"{POWERING}._ended"),
    publications: ("annealer.publishing.PublishingSweep._ask",),
    journal_entries: ("store.journal.write", *DISCARD),
    driven(ROLLOUT, DEPLOYMENT): tuple(f"{DRIVERS}.{name}: rollout" for name in DRIVEN),
    driven(TASK_RUN, LAB): (
        *(f"{DRIVERS}.{name}: run of tasks" for name in DRIVEN),
        "store.tasks.runs.keep_history#1",
        "store.tasks.runs.keep_history#2",
    ),
    installations: ("annealer.runs.installing.Installer._send",),
    large_ends: ("annealer.runs.executor.Executor._write: alone",),
    webhook: (f"{DELIVERY}._begun", f"{DELIVERY}.attempt", f"{DELIVERY}._note"),
}


def test_every_transaction_of_an_annealer_is_in_a_scene() -> None:
    tried = {site for sites in SCENES.values() for site in sites}
    assert {name for name in write_sites.names() if name.startswith("annealer.")} - tried == set()
    assert tried - write_sites.names() == set()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_an_annealer_is_told_of_a_lost_answer_is_so(
    scene: Callable[[Stage, pytest.MonkeyPatch], None],
    zookeeper: Server,
    chroot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with on_stage(zookeeper, chroot, tmp_path / scene.__name__) as stage:
        try:
            scene(stage, monkeypatch)
        finally:
            print("\n".join(table(stage.ledger.reports)))
    assert faults(stage.ledger.reports) == []
    assert untried(stage.ledger.reports, SCENES[scene]) == []
