"""Operations without a command line: races, lost answers, dry runs, agreements, and the journal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, NotFound, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Change, Create, Node, Set, State
from nodepool_ocb.operations import performer as performing
from nodepool_ocb.operations.nodes.binding import NodeBind
from nodepool_ocb.operations.nodes.changing import NodeDead, NodeSet, NodeUnavailable
from nodepool_ocb.operations.nodes.committing import NodeCommit
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.operations.operation import (
    Call,
    Explained,
    Lookup,
    Near,
    Note,
    Operation,
    Right,
    Situation,
    Steps,
    near_nodes,
)
from nodepool_ocb.operations.performer import Performer, Reader
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import InterruptedPerformer, ListeningCaller, calm

N1, N2 = "n1.example.com", "n2.example.com"


def node(session: Session, fqdn: str) -> Node:
    record = load_world(session).nodes[fqdn].record
    assert record is not None
    return record


def entries(session: Session) -> list[Entry]:
    return [read.entry for read in journal.read(session, journal.numbers(session)) if read.entry is not None]


# -- races --


def test_after_a_conflict_it_decides_again_and_loses_no_change(world: Session, zk_settings: ZooKeeperSettings) -> None:
    before = len(entries(world))

    def other() -> None:
        calm(zk_settings).perform(NodeSet(nodes=(N1,), assignments=("rack=r1",)))

    mine = InterruptedPerformer(zk_settings, other, reason="move")
    done = mine.perform(NodeSet(nodes=(N1,), assignments=("tags=db",)))
    assert (node(world, N1).rack, node(world, N1).tags, mine.reads) == ("r1", ("db",), 2)
    assert [(row.kind, row.name) for row in done.rows] == [("node", N1)]
    noted = entries(world)[before:]
    assert [(each.login, each.host, each.verb, each.reason, each.part) for each in noted] == [
        ("ann", "desk", "node set", None, 1),
        ("ann", "desk", "node set", "move", 1),
    ]


def test_the_configuration_is_read_one_time_in_a_call(world: Session, zk_settings: ZooKeeperSettings) -> None:
    read: list[Settings] = []

    def settings() -> Settings:
        read.append(Settings(zookeeper=zk_settings))
        return read[-1]

    used = Performer(Call(login="ann", host="desk"), ListeningCaller(), settings)
    assert not read, "a call that needs none reads none"
    used.perform(NodeSet(nodes=(N1,), assignments=("rack=r1",)))
    used.perform(NodeSet(nodes=(N1,), assignments=("rack=r2",)))
    assert len(read) == 1
    assert node(world, N1).rack == "r2"


def test_a_selector_is_resolved_one_time_in_a_call(world: Session, zk_settings: ZooKeeperSettings) -> None:
    def other() -> None:
        calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(tags=("web",), available=True)))
        calm(zk_settings).perform(NodeSet(nodes=(N1,), assignments=("rack=r1",)))

    mine = InterruptedPerformer(zk_settings, other)
    mine.perform(NodeUnavailable(selector="tag:web"))
    assert (node(world, N1).available, node(world, N2).available, mine.reads) == (False, True, 2)


def test_a_node_that_a_selector_meant_may_be_gone_after_a_conflict_and_a_named_one_may_not(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    def other() -> None:
        calm(zk_settings).perform(NodeDelete(nodes=(N1,)))

    named = InterruptedPerformer(zk_settings, other)
    with pytest.raises(NotFound, match=N1):
        named.perform(NodeSet(nodes=(N1,), assignments=("rack=r1",)))
    calm(zk_settings).perform(NodeCreate(name=N1, node=NewNode(tags=("web",))))
    meant = InterruptedPerformer(zk_settings, other)
    assert meant.perform(NodeSet(selector="tag:web", assignments=("rack=r1",))).rows == ()
    assert N1 not in load_world(world).nodes


def test_two_nodes_of_one_template_get_two_numbers(world: Session, zk_settings: ZooKeeperSettings) -> None:
    operation = NodeCreate(name="web-{}.example.com", node=NewNode(), count=2)
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(operation))
    done = mine.perform(operation)
    assert [row.name for row in done.rows] == ["web-3.example.com", "web-4.example.com"]
    assert len(done.answers) == 2
    assert [each.part for each in entries(world)][-2:] == [1, 2]


def test_it_gives_up_when_others_are_always_faster(
    world: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: list[float] = []

    def shortest(least: float, most: float) -> float:
        longest.append(most)
        return least

    monkeypatch.setitem(sys.modules, "random", SimpleNamespace(uniform=shortest))  # threads of the client draw, too

    class Overtaken(Operation[None], frozen=True, kw_only=True):
        noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (ReadWorld,), ("node",)

        def decide(self, situation: Situation) -> Steps[None]:  # noqa: ARG002
            world = yield from ReadWorld()
            yield [Set(paths.node(N1), node(session, N1), world.nodes[N1].version + 1)]

    session = world
    mine = calm(zk_settings)
    with pytest.raises(Stale, match="others keep changing the same things") as given_up:
        mine.perform(Overtaken())
    assert given_up.value.path == paths.node(N1)
    assert mine.reads == performing.ATTEMPTS
    assert longest == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, *[1.0] * 33], "the pauses grow, and have a bound"


def test_an_operation_knows_how_many_transactions_its_attempts_before_have_written(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    known: list[int] = []

    class SetTwice(Operation[None], frozen=True, kw_only=True):
        noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (ReadWorld,), ("node",)

        def decide(self, situation: Situation) -> Steps[None]:
            known.append(situation.transactions)
            yield from NodeSet(nodes=(N1,), assignments=(f"rack=r{len(known)}",)).decide(situation)
            if len(known) == 1:
                raise Stale("another writer was faster", paths.node(N1))

    mine = calm(zk_settings)
    for _ in range(2):
        mine.perform(SetTwice())
    assert (known, node(world, N1).rack) == ([0, 1, 0], "r3")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_decision_that_asks_for_more_of_the_tree_has_its_notes_and_rows_one_time(
    zk_settings: ZooKeeperSettings, dry_run: bool
) -> None:
    class SetAndCount(Operation[int], frozen=True, kw_only=True):
        noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (ReadWorld,), ("node",)

        @property
        def near(self) -> Near | None:
            return near_nodes([N1])

        def decide(self, situation: Situation) -> Steps[int]:
            yield from NodeSet(nodes=(N1,), assignments=("rack=r1",)).decide(situation)
            yield Note("set")
            world = yield from ReadWorld()
            return len(world.nodes)

    mine = calm(zk_settings, dry_run=dry_run)
    done = mine.perform(SetAndCount())
    assert (done.answer, mine.heard.notes) == (1, ["set"])
    assert [(row.kind, row.name) for row in done.rows] == [("node", N1)]


# -- agreement --


@pytest.mark.usefixtures("world")
def test_agreement_is_asked_for_one_time_and_covers_no_more_than_it_named(zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(deployment="lab")))

    def changed() -> None:
        calm(zk_settings).perform(NodeSet(nodes=(N1,), assignments=("rack=r1",)))

    def bound() -> None:
        calm(zk_settings).perform(NodeBind(nodes=(N2,), roles=("top",), parents=(f"middle@{N1}",)))

    more = InterruptedPerformer(zk_settings, bound)
    with pytest.raises(Conflict, match=f"top@{N2} came to depend on {N1} meanwhile"):
        more.perform(NodeDelete(nodes=(N1,)))
    again = InterruptedPerformer(zk_settings, changed)
    again.perform(NodeDelete(nodes=(N1,)))
    assert (len(again.heard.agreed), again.reads > 1) == (1, True)


@pytest.mark.usefixtures("world")
def test_a_refused_agreement_changes_nothing(zk_session: Session, zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode()))
    before = node(zk_session, N1)
    mine = calm(zk_settings)
    mine.heard.agrees = False
    with pytest.raises(Conflict, match="refused: mark 2 nodes"):
        mine.perform(NodeDead(nodes=(N1, N2)))
    assert node(zk_session, N1) == before


# -- lost answers --


def test_a_transaction_with_a_lost_answer_is_written_and_noted_one_time(
    world: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str
) -> None:
    before = len(entries(world))
    with lost_answer(zookeeper) as (proxy, met):
        mine = calm(replace(zk_settings, hosts=proxy.hosts + chroot))
        done = mine.perform(NodeCreate(name=N2, node=NewNode()))
    assert (len(met), [row.name for row in done.rows if row.kind == "node"]) == (1, [N2])
    assert [each.subjects[0] for each in entries(world)[before:]] == [N2]


@pytest.mark.usefixtures("world")
def test_a_call_that_ends_half_way_notes_how_far_it_came(
    zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sent = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        sent.append(len(changes))
        if len(sent) == 2:
            raise Unavailable("gone")
        return real(session, changes)

    class SetTwice(NodeSet, frozen=True, kw_only=True):
        def decide(self, situation: Situation) -> Steps[Explained]:
            yield from NodeSet(nodes=(N1,), assignments=("rack=r1",)).decide(situation)
            return (yield from NodeSet(nodes=(N1,), assignments=("rack=r2",)).decide(situation))

    monkeypatch.setattr(Session, "commit", commit)
    mine = calm(zk_settings)
    with pytest.raises(Unavailable):
        mine.perform(SetTwice(nodes=(N1,), assignments=()))
    assert mine.heard.notes == [f"1 change written, the last of {N1}; the same command goes on with the rest"]


def test_a_call_that_ends_between_two_nodes_that_it_creates_advises_no_repetition(
    world: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command would create all of them once more."""
    real, begun = NodeCreate.decide, list[int]()

    def decide(operation: NodeCreate, situation: Situation) -> Steps[Explained]:
        begun.append(1)
        if len(begun) == 2:
            raise Unavailable("gone")
        return (yield from real(operation, situation))

    monkeypatch.setattr(NodeCreate, "decide", decide)
    mine = calm(zk_settings)
    with pytest.raises(Unavailable):
        mine.perform(NodeCreate(name="web{}.example.com", node=NewNode(), count=2))
    assert mine.heard.notes == []
    assert "web1.example.com" in load_world(world).nodes


# -- dry runs, and decisions by hand --


@pytest.mark.usefixtures("world")
def test_a_dry_run_that_ends_half_way_tells_of_no_written_change(zk_settings: ZooKeeperSettings) -> None:
    class SetAndFail(NodeSet, frozen=True, kw_only=True):
        def decide(self, situation: Situation) -> Steps[Explained]:
            yield from NodeSet(nodes=(N1,), assignments=("rack=r1",)).decide(situation)
            raise Conflict("refused")

    mine = calm(zk_settings, dry_run=True)
    with pytest.raises(Conflict):
        mine.perform(SetAndFail(nodes=(N1,), assignments=()))
    assert mine.heard.notes == []


def test_a_transaction_that_creates_a_record_without_a_new_structure_is_not_sent(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    class Forgetful(Operation[None], frozen=True, kw_only=True):
        noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (), ("node",)

        def decide(self, situation: Situation) -> Steps[None]:  # noqa: ARG002
            yield [Create(paths.node(N2), Node())]

    with pytest.raises(AssertionError, match="raises the structure"):
        calm(zk_settings).perform(Forgetful())
    assert world.get(paths.node(N2)) is None


def test_a_dry_run_gives_the_rows_and_writes_nothing(world: Session, zk_settings: ZooKeeperSettings) -> None:
    before = len(entries(world))
    done = calm(zk_settings, dry_run=True).perform(NodeCommit(nodes=(N1,)))
    assert {row.kind for row in done.rows} == {"noderole"}
    assert len(entries(world)) == before
    assert {each.record.state for each in load_world(world).vertices()} == {State.PROPOSED}


def test_a_lookup_that_writes_in_a_dry_run_is_refused_before_it_is_sent(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    class Write(Lookup[None], frozen=True):
        def answer(self, reader: Reader) -> None:
            view = load_world(reader.session).nodes[N1]
            assert view.record is not None
            reader.session.commit([Set(paths.node(N1), replace(view.record, rack="r9"), view.version)])

    class Writing(Operation[None], frozen=True, kw_only=True):
        noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (Write,), ("node",)

        def decide(self, situation: Situation) -> Steps[None]:  # noqa: ARG002
            yield from Write()

    with pytest.raises(AssertionError, match="a dry run of lamp light writes"):
        calm(zk_settings, dry_run=True).perform(Writing())
    assert node(world, N1).rack is None
    calm(zk_settings).perform(Writing())
    assert node(world, N1).rack == "r9"


def test_a_decision_needs_no_zookeeper() -> None:
    call = Call(login="ann", host="desk")
    steps = NodeSet(nodes=(N1,), assignments=("rack=r1",)).decide(
        Situation(call=call, now=5.0, local_now=5.0, settings=Settings())
    )
    assert next(steps) == ReadWorld()
    world = World()
    world.put_node(N1, Node(), 3)
    [change] = steps.send(world)
    assert change == Set(paths.node(N1), Node(rack="r1"), 3)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == Explained()


@pytest.mark.parametrize(("reads", "writes", "lacks"), [((), ("node",), "ReadWorld"), ((ReadWorld,), (), "'node'")])
def test_an_operation_reads_and_writes_only_as_it_declares(
    world: Session, zk_settings: ZooKeeperSettings, reads: tuple[Any, ...], writes: tuple[str, ...], lacks: str
) -> None:
    class Undeclared(Operation[None], frozen=True, kw_only=True):
        noun, verb, right = "lamp", "light", Right.OPERATOR

        def decide(self, situation: Situation) -> Steps[None]:  # noqa: ARG002
            world = yield from ReadWorld()
            view = world.nodes[N1]
            assert view.record is not None
            yield [Set(paths.node(N1), replace(view.record, rack="r9"), view.version)]

    Undeclared.reads, Undeclared.writes = reads, writes
    with pytest.raises(AssertionError, match=lacks):
        calm(zk_settings).perform(Undeclared())
    assert node(world, N1).rack is None, "what is not declared is not written"


@pytest.mark.usefixtures("world")
def test_a_decision_may_go_on_behind_a_lookup_that_is_refused(zk_settings: ZooKeeperSettings) -> None:
    class Refused(Lookup[None], frozen=True):
        def answer(self, reader: Reader) -> None:  # noqa: ARG002
            raise NotFound("nothing is there")

    def steps() -> Steps[str]:
        try:
            yield from Refused()
        except NotFound as error:
            return str(error)
        return "found"

    assert calm(zk_settings).read(steps()) == "nothing is there"


@pytest.mark.usefixtures("world")
def test_a_note_of_a_lookup_is_sent_one_time_in_a_call(zk_settings: ZooKeeperSettings) -> None:
    mine, kept = calm(zk_settings), dict[object, object]()
    with mine.session() as opened:
        for _ in range(2):  # attempts
            Reader(mine, opened, kept).note_one_time("a part of the secret is short")
    assert mine.heard.notes == ["a part of the secret is short"]
