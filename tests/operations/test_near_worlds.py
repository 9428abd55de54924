"""A command about a node or a noderole reads the part of the tree around it, and answers as if it had read everything."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError, Unread
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import HeardServer, Publication, Publisher
from nodepool_ocb.model.installation import Installation
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.power import MachinePower, PowerAction, Powered, PowerRequest, PowerStep
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Deployment,
    DeploymentState,
    Fence,
    Gate,
    Node,
    NodeRole,
    Role,
    Set,
    State,
    Structure,
)
from nodepool_ocb.operations.noderoles.acting import NoderoleCancel, NoderoleCommit, NoderoleRefresh, NoderoleRetry
from nodepool_ocb.operations.noderoles.effective import NoderoleAttributes
from nodepool_ocb.operations.noderoles.explaining import NoderoleExplain
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderoleShow
from nodepool_ocb.operations.nodes.changing import NodeSet, NodeUnavailable
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.operations.operation import Near, Operation
from nodepool_ocb.operations.performer import Reader
from nodepool_ocb.rollout import plan
from nodepool_ocb.rollout.strategy import Group, Strategy
from nodepool_ocb.store import clusters, rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.store.world.near import near_world
from nodepool_ocb.store.world.paths import Listing, listing
from nodepool_ocb.testing.grid import Grid
from tests.operations.performing import InterruptedPerformer, calm

FQDNS: Final = [f"n{number}.example.com" for number in range(6)]
ROLES: Final = [f"r{level}" for level in range(5)]
DEPLOYMENTS: Final = ["lab", "prod", "open", "paused"]
#: What may be written on the node of a noderole, or in its record, and what keeps it from starting.
NODES: Final = (
    {"alive": True},
    {"alive": True, "available": False},
    {"alive": False, "reason": "connect: refused", "addresses": ("10.0.0.1",)},
    {"alive": True, "deleting": True},
    {"alive": True, "hold": Maintenance(by="ann", since=1.0, reason="disk")},
    {"virtual": True},
)
REQUEST: Final = PowerRequest(id="0" * 16, action=PowerAction.CYCLE, by="ann", since=1.0, until=900.0)
INSTALLATION: Final = Installation(
    noderole="r0@n0.example.com", generation=0, run="0000000001-aaaaaa", epoch=1, since=2.0, started=1.0, deadline=3.0,
    nonce="0" * 32, token_digest="0" * 64,
)  # fmt: skip
STRATEGY: Final = Strategy(groups=(Group(name="first", critical=True), Group(name="then", depends_on=("first",))))
STATES: Final = (*State, State.ACTIVE, State.ACTIVE, State.BLOCKED)


class WholePerformer(InterruptedPerformer):
    """Reads everything for each call."""

    def load_near(self, opened: Session, near: Near | None) -> World:  # noqa: ARG002
        return self.load(opened)


def obstacles(seed: int) -> Iterator[Change]:
    """A tree with noderoles in every state, with parents on any node and in clusters, and with every kind of obstacle."""
    some = random.Random(seed)
    now = some.random
    for name in DEPLOYMENTS:
        pause = Maintenance(by="ann", since=1.0, reason="move") if name == "paused" else None
        state = DeploymentState.PROPOSED if name == "open" else DeploymentState.COMMITTED
        yield Create(paths.deployment(name), Deployment(parent="system", state=state, since=1.0, pause=pause))
        yield Create(paths.deployment_roles(name))
        yield Create(f"{paths.deployment(name)}/clusters")
        yield Create(paths.gate(name, "r1"), Gate())
    for role in ROLES[:-1]:
        yield Create(paths.role(role), Role(barclamp="b", jig="noop", flags=("cluster",) if role == "r1" else ()))
    jigs = ("noop",) if now() < 0.8 else ()
    yield Create(paths.daemon("annealer", "a1"), Daemon(host="h", pid=1, version="1", started=1.0, jigs=jigs))
    for fqdn in FQDNS:
        yield Create(paths.node(fqdn), Node(deployment=some.choice(DEPLOYMENTS), since=2.0, **some.choice(NODES)))
        if now() < 0.9:
            yield Create(paths.fence(fqdn), Fence())
        yield Create(paths.noderoles(fqdn))
        if now() < 0.3:
            claim = Claim(annealer=some.choice(["a1", "gone"]), noderole=f"r0@{fqdn}", run="x", epoch=1, since=3.0)
            yield Create(paths.claim(fqdn), claim, ephemeral=now() < 0.5)
        for level, role in enumerate(ROLES):
            yield Create(paths.noderole(role, fqdn), noderole(some, level))


def beside(seed: int) -> Iterator[Change]:
    """Requests of power, installations and publications beside such a tree."""
    some = random.Random(-seed)
    for fqdn in FQDNS:
        if some.random() < 0.5:
            asked_for = some.choice(
                [None, replace(REQUEST, until=2e9), replace(REQUEST, step=PowerStep.ON, annealer="a1")]
            )
            chassis = some.choice([None, "c1"])
            power = MachinePower(driver="manual", powered=some.choice([*Powered]), request=asked_for, chassis=chassis)
            yield Create(paths.power(fqdn), power)
        if some.random() < 0.4:
            yield Create(paths.installation(fqdn), replace(INSTALLATION, noderole=f"r0@{fqdn}"))
    publisher = f"r0@{FQDNS[0]}"
    heard = HeardServer(server="10.9.9.9", offered="10.9.9.10", interface="eth0", own="10.1.0.2/24")
    yield Create(paths.publisher(publisher), Publisher(address="http://10.1.0.2:8480", heard=(heard,)))
    for fqdn in some.sample(FQDNS, 3):
        yield Create(paths.publication(publisher, fqdn), Publication(digest="d"))


def noderole(some: random.Random, level: int) -> NodeRole:
    above = [f"r{level - 1}@{fqdn}" for fqdn in FQDNS] + (
        ["r1@*lab", "r1@*prod", "gone@n0.example.com"] if level > 1 else []
    )
    parents = tuple(sorted(some.sample(above, some.randint(1, 2)))) if level else ()
    state = some.choice(STATES)
    rare: dict[str, Any] = {"serves": ("r1",)} if level == 1 else {}
    if state in (State.ERROR, State.TODO):
        rare |= {"reason": "no disk"} if some.random() < 0.5 else {}
    if state is State.TODO and some.random() < 0.3:
        rare |= {"not_before": 2e9, "attempt": 2}
    if state is State.ACTIVE and some.random() < 0.4:
        rare |= {"refresh": True}
    if some.random() < 0.1:
        rare |= {"hooks": ("on_todo",)}
    return NodeRole.of(state=state, since=4.0, deployment=some.choice(DEPLOYMENTS), parents=parents, run="x", **rare)


def names() -> list[str]:
    return [f"{role}@{fqdn}" for fqdn in FQDNS for role in ROLES]


def asked(name: str) -> list[Operation[Any]]:
    fqdn = name.partition("@")[2]
    one = (name,)
    return [
        NoderoleExplain(noderoles=one),
        NoderoleShow(noderole=name),
        NoderoleAttributes(noderole=name),
        NodeShow(node=fqdn),
        NoderoleList(node=fqdn),
        NoderoleRetry(noderoles=one),
        NoderoleRefresh(noderoles=one),
        NoderoleCommit(noderoles=one),
        NoderoleCancel(noderoles=one),
        NodeUnavailable(nodes=(fqdn,)),
    ]


#: One of several noderoles is named: of children that are not settled, and of ancestors that run again, the first that was read.
ONE_OF: Final = re.compile(
    r"(?<=CHILD_UNSETTLED'>, )subject='\S+'|its child \S+ is still \w+"
    r"|subject='\S+', since=4.0, text='\S+ (?=above it must run again first)|\S+ (?=above it must run again first)"
    r"|(?<=above it must run again first)(', advice='| \(.*?\)\\n   -> )nodepool-ocb noderole explain [^'\\\\]+"
)


def decided(performer: InterruptedPerformer, opened: Session, operation: Operation[Any], near: Near | None) -> str:
    """The answer, the changes, the notes, and the error of a decision that is not written, as text; raises Unread."""
    before = len(performer.heard.notes)
    reader = Reader(performer, opened, {}, operation.reads, near)
    changes: list[Sequence[Change]] = []
    answer: object = None
    wrong = ""
    situation = replace(performer._situation(opened, ()), now=1e9, local_now=1e9)
    steps = reader.transactions(operation.decide(situation))
    try:
        while True:
            changes.append(sorted(next(steps), key=repr))
    except StopIteration as ended:
        answer = ended.value
    except OcbError as refused:
        wrong = repr(refused)
    return ONE_OF.sub("one", repr((answer, changes, performer.heard.notes[before:], wrong)))


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 24))])
def test_a_decision_from_a_part_of_the_tree_is_the_decision_from_all_of_it(
    zk_session: Session, zk_settings: ZooKeeperSettings, seed: int
) -> None:
    clusters.bootstrap(zk_session)
    zk_session.ensure(paths.daemons("annealer"))
    zk_session.commit([*obstacles(seed), *beside(seed)])
    rollouts.begin(zk_session, "lab", plan.begin(STRATEGY, dict.fromkeys(FQDNS, Node(deployment="lab")), now=1.0))
    near, part = calm(zk_settings), 0
    for name in names() if seed > 3 else names()[::4]:
        for operation in asked(name):
            whole = decided(WholePerformer(zk_settings, lambda: None), zk_session, operation, None)
            limits: Near | None = operation.near
            while True:
                try:
                    assert decided(near, zk_session, operation, limits) == whole, operation
                    part += limits is not None
                    break
                except Unread as more:
                    assert limits is not None
                    limits = limits.with_family(more.family)
    assert part > 30, "most decisions need a part"


@pytest.mark.parametrize("state", [State.PROPOSED, State.BLOCKED])
def test_a_member_of_a_cluster_that_cannot_be_read_holds_a_noderole_as_if_everything_had_been_read(
    zk_session: Session, zk_settings: ZooKeeperSettings, state: State
) -> None:
    clusters.bootstrap(zk_session)
    zk_session.ensure(paths.daemons("annealer"))
    one, other, third = FQDNS[:3]
    member = NodeRole.of(state=State.ACTIVE, since=1.0, deployment="lab", serves=("r1",))
    child = NodeRole.of(state=state, since=1.0, deployment="lab", parents=("r1@*lab",))
    made: list[Change] = [
        Create(paths.role("r1"), Role(barclamp="b", jig="noop", flags=("cluster",))),
        Create(paths.role("r2"), Role(barclamp="b", jig="noop", requires=("r1",))),
        Create(paths.deployment("lab"), Deployment(parent="system", state=DeploymentState.COMMITTED)),
        *(Create(path) for path in (paths.deployment_roles("lab"), paths.clusters("lab"))),
        Create(paths.gate("lab", "r1"), Gate()),
    ]
    for fqdn in (one, other, third):
        made += [Create(paths.node(fqdn), Node(alive=True, deployment="lab")), Create(paths.noderoles(fqdn))]
    places = {one: ("r1", member), other: ("r1", member), third: ("r2", child)}
    zk_session.commit([*made, *(Create(paths.noderole(role, fqdn), each) for fqdn, (role, each) in places.items())])
    zk_session._client.set(paths.noderole("r1", other), b"garbage")
    near, whole = calm(zk_settings), WholePerformer(zk_settings, lambda: None)
    for operation in (NoderoleExplain(noderoles=(f"r2@{third}",)), NoderoleCommit(noderoles=(f"r2@{third}",))):
        said = decided(whole, zk_session, operation, None)
        assert f"{paths.noderole('r1', other)} cannot be read" in said
        assert decided(near, zk_session, operation, operation.near) == said


# -- the records that are read --


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by each path that a session reads, and by each folder that it lists."""
    found: list[str] = []
    stream, children = SessionReads.stream, SessionReads.children_many

    def streamed(session: SessionReads, wanted: Any) -> Any:
        asked_for = list(wanted)
        found.extend(asked_for)
        return stream(session, asked_for)

    def listed(session: SessionReads, folders: Sequence[str]) -> Any:
        found.extend(folders)
        return children(session, folders)

    monkeypatch.setattr(SessionReads, "stream", streamed)
    monkeypatch.setattr(SessionReads, "children_many", listed)
    return found


def test_a_command_about_a_noderole_reads_as_many_records_of_a_small_cluster_as_of_a_large_one(
    zk_session: Session, zk_settings: ZooKeeperSettings, read: list[str]
) -> None:
    counts: list[list[int]] = []
    written = 0
    for nodes in (2, 13):
        grid = Grid(nodes=nodes, depth=3, across=False, active=True)
        zk_session.ensure(paths.daemons("annealer"))
        if not written:
            grid.of(2).write(zk_session)
        else:
            grid.extend(zk_session, written)
        written = nodes
        fqdn = grid.fqdn(0)
        operations: list[Operation[Any]] = [
            NoderoleExplain(noderoles=(f"step-2-0@{fqdn}",)),
            NoderoleAttributes(noderole=f"step-2-0@{fqdn}"),
            NoderoleList(node=fqdn),
            NodeShow(node=fqdn),
            NoderoleRefresh(noderoles=(f"step-{nodes % 2}-0@{fqdn}",)),
            NodeSet(nodes=(fqdn,), assignments=(f"rack=r{nodes}",)),
        ]
        each: list[int] = []
        for operation in operations:
            read.clear()
            calm(zk_settings).perform(operation)
            each.append(len(read))
        counts.append(each)
    assert counts[0] == counts[1]


def test_the_children_of_a_noderole_are_found_on_every_node_and_the_members_of_a_cluster_too(
    zk_session: Session,
) -> None:
    grid = Grid(nodes=6, lanes=1, depth=3, active=True)
    grid.write(zk_session)
    fqdn, before = grid.fqdn(1), grid.fqdn(0)
    name = f"step-0-0@{fqdn}"
    part = near_world(zk_session, [fqdn], [name], ancestors=False)
    assert part is not None
    vertex = part.vertex(name)
    assert vertex is not None
    assert sorted(child.name for child in vertex.children) == [f"step-1-0@{before}", f"step-1-0@{fqdn}"]
    without = near_world(zk_session, [fqdn])
    assert without is not None
    vertex = without.vertex(name)
    assert vertex is not None
    with pytest.raises(Unread, match=name):
        list(vertex.children)


def test_a_part_that_was_read_while_a_noderole_came_or_went_does_not_suffice(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate may be newer than the members that are shown."""
    grid = Grid(nodes=1, lanes=1, depth=1)
    grid.write(zk_session)

    def while_others_write(session: Session, kinds: Any) -> Listing:
        found = listing(session, kinds)
        znode = zk_session.get(paths.STRUCTURE)
        assert znode is not None
        zk_session.commit([Set(paths.STRUCTURE, Structure(), znode.version)])
        return found

    with monkeypatch.context() as patch:
        patch.setattr("nodepool_ocb.store.world.near.listing", while_others_write)
        assert near_world(zk_session, [grid.fqdn(0)]) is None
    assert near_world(zk_session, [grid.fqdn(0)]) is not None


def test_a_part_with_more_noderoles_than_are_read_one_by_one_does_not_suffice(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(nodes=2, lanes=1, depth=2)
    grid.write(zk_session)
    found = []
    for most in (1, 4):
        monkeypatch.setattr("nodepool_ocb.store.world.near.MOST", most)
        found.append(near_world(zk_session, [grid.fqdn(0)]) is not None)
    assert found == [False, True]


def test_a_child_and_a_member_are_found_also_by_names_that_are_written_with_escapes(zk_session: Session) -> None:
    grid = Grid(nodes=3, lanes=1, depth=2, active=True)
    grid.write(zk_session)
    one, other = grid.fqdn(0), grid.fqdn(1)
    name, child, member = f"step-0-0@{one}", f"step-1-0@{other}", f"step-0-0@{other}"
    deployment = load_world(zk_session).nodes[one].noderoles["step-0-0"].record.deployment
    below = NodeRole(state=State.BLOCKED, since=1.0, deployment=deployment, parents=(name, f"dns@*{deployment}"))
    serving = NodeRole.of(state=State.ACTIVE, since=1.0, deployment=deployment, serves=("dns",))
    for record, each in ((below, child), (serving, member)):
        data = codec.encode(record).replace(b"@", b"\\u0040").replace(b"serves", b"\\u0073erves")
        zk_session._client.set(paths.noderole(*paths.split_noderole(each)), data)
    part = near_world(zk_session, [one], [name])
    assert part is not None
    assert child in {each.name for each in part.below(name)}
    assert [each.name for each in part.cluster_view("dns", deployment).members] == [member]
