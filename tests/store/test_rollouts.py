"""Rollouts in ZooKeeper: whole or not there, at most one of a deployment under way, and one writer who knows it all."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ROLLOUT
from nodepool_ocb.model.records import Change, Create, Delete, Deployment, LockOwner, Node, Record, RolloutPointer, Set
from nodepool_ocb.rollout import commands, records
from nodepool_ocb.rollout.plan import begin as planned
from nodepool_ocb.rollout.records import Decision, GroupState, NodesRecord, NodeState, Rollout, RolloutState, apply
from nodepool_ocb.rollout.strategy import PHASES, Group, Strategy
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import lines, pointers
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.rollouts import Versions
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.deletions import deletion_of_deployment as deletion
from tests.store.directing import steer

ME = LockOwner(daemon="annealer", host="h", pid=1, purpose="rollout", since=1.0)


@pytest.fixture
def session(zk_session: Session) -> Session:
    """With deployments: lab, with sub and deep below it, and other beside it."""
    for name, parent in (("lab", "system"), ("sub", "lab"), ("deep", "sub"), ("other", "system")):
        zk_session.commit([Create(paths.deployment(name), Deployment(parent=parent))])
    return zk_session


def rollout(nodes: int = 3, groups: int = 2) -> Rollout:
    named = tuple(Group(name=f"g{number}") for number in range(groups))
    site = {f"n{number:04}.example.com": Node() for number in range(nodes)}
    return planned(Strategy(groups=named, phases=PHASES), site, 5.0, by="ann")


def read(session: Session, identity: str, deployment: str = "lab") -> tuple[Rollout, Versions]:
    found = rollouts.read(session, deployment, identity)
    assert found is not None
    return found


def over(before: Rollout, state: RolloutState = RolloutState.FAILED) -> Rollout:
    return apply(before, [Decision("", replace(before.head, state=state), "it ended")])


def end(session: Session, identity: str, deployment: str = "lab") -> None:
    before, versions = read(session, identity, deployment)
    session.commit(rollouts.changes(deployment, identity, before, over(before), versions, 9.0))


@pytest.mark.parametrize(("nodes", "groups"), [(3, 2), (0, 1), (1000, 500)])
def test_a_rollout_is_read_as_it_was_begun(session: Session, nodes: int, groups: int) -> None:
    begun = rollout(nodes, groups)
    identity = rollouts.begin(session, "lab", begun)
    assert identity == "0000000000"
    assert read(session, identity)[0] == begun
    assert rollouts.newest(session, "lab") == identity
    assert rollouts.newest(session, "other") is None
    assert rollouts.read(session, "lab", "0000000007") is None


BROKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a group of another name": ("", {"groups": ("g0", "g7")}, "group g7 is not there"),
    "no phases": ("", {"strategy": Strategy(phases=())}, "it has no phases"),
    "a phase that there is not": ("groups/g0", {"phase": 2}, "phase 2"),
    "a phase before the first": ("groups/g0", {"phase": -1}, "not a GroupRecord"),
    "a reason that there is not": ("groups/g0", {"state": GroupState.FAILED, "reason": "x"}, "reason x"),
    "members that are no numbers": ("groups/g0", {"members": "0-x"}, "members"),
    "members that there are not": ("groups/g0", {"members": "0-99999999999"}, "members"),
    "members before the first": ("groups/g0", {"members": "-2"}, "members"),
    "an unknown group above": ("groups/g0", {"group": Group(name="g0", depends_on=("x",))}, "depends on group x"),
    "another group's definition": ("groups/g0", {"group": Group(name="g1")}, "definition is of group g1"),
    "a node of an unknown group": ("nodes/0000", {"group": "x"}, "node n0000.example.com was sent for group x"),
    "a node beyond the last phase": ("nodes/0000", {"passed": 3}, "node n0000.example.com"),
    "a node at work after the last phase": ("nodes/0000", {"passed": 2, "state": NodeState.SENT}, "node n0000"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_records_that_contradict_each_other_are_refused_by_name(session: Session, how: str) -> None:
    part, fields, message = BROKEN[how]
    identity = rollouts.begin(session, "lab", rollout())
    before = records.parts(read(session, identity)[0])[part]
    if isinstance(before, NodesRecord):
        first, progress = next(iter(before.nodes.items()))
        wrong: Record = replace(before, nodes={**before.nodes, first: replace(progress, **fields)})
    else:
        wrong = replace(before, **fields)
    path = paths.rollout("lab", identity, part)
    by_hand = msgspec.to_builtins(wrong)  # a record out of its range would not be written
    session.commit([Set(path, by_hand, 1 if not part else 0)])
    with pytest.raises(Invalid, match=message) as refused:
        rollouts.read(session, "lab", identity)
    assert paths.rollout("lab", identity) in str(refused.value)


def test_while_one_is_under_way_no_other_begins(session: Session) -> None:
    first = rollouts.begin(session, "lab", rollout())
    with pytest.raises(Conflict, match=f"rollout lab/{first} is under way"):
        rollouts.begin(session, "lab", rollout())
    assert rollouts.begin(session, "other", rollout()) == "0000000000"
    end(session, first)
    assert rollouts.begin(session, "lab", rollout()) > first


def test_one_whose_record_was_deleted_by_hand_keeps_no_other_from_beginning(session: Session) -> None:
    """Nobody could end it."""
    first = rollouts.begin(session, "lab", rollout())
    for change in removal(session, paths.rollout("lab", first)):
        session.commit([change])
    assert rollouts.begin(session, "lab", rollout()) > first


def test_of_several_that_begin_at_once_one_does(session: Session) -> None:
    answers: list[object] = []

    def start() -> None:
        try:
            answers.append(rollouts.begin(session, "lab", rollout()))
        except OcbError as refused:
            answers.append(type(refused))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun = [each for each in answers if isinstance(each, str)]
    assert len(begun) == 1
    assert [each for each in answers if each not in begun] == [Conflict] * 7
    assert rollouts.newest(session, "lab") == begun[0]
    there = [name for name in session.children(paths.rollouts("lab")) or () if rollouts.read(session, "lab", name)]
    assert there == begun


def test_one_that_was_not_begun_to_the_end_is_none(session: Session) -> None:
    before = rollouts.begin(session, "lab", rollout())
    end(session, before)
    half = session.create_next(paths.rollouts("lab") + "/", None)
    session.commit([Create(f"{half}/groups"), Create(f"{half}/nodes")])
    assert rollouts.read(session, "lab", half[-10:]) is None
    assert [each.id for each in rollouts.list_(session)] == [before]
    last = rollouts.begin(session, "lab", rollout())
    assert session.get(half) is None, "whoever begins the next one takes it away"
    assert [each.id for each in rollouts.list_(session)] == [before, last]


def test_the_rollouts_of_a_deployment_that_is_made_again_have_ids_above_those_of_its_first_life(
    session: Session,
) -> None:
    first = [rollouts.begin(session, "other", rollout())]
    end(session, first[-1], "other")
    first.append(rollouts.begin(session, "other", rollout()))
    end(session, first[-1], "other")
    for _ in range(2):  # the second life has no rollout, and forgets nothing
        for transaction in deletion(session, load_world(session), "other"):
            session.commit(transaction)
        session.commit(deployments.create(load_world(session), "other", "system", 1.0))
    assert rollouts.begin(session, "other", rollout()) > first[-1]


def test_the_last_ten_are_kept_and_no_id_is_given_twice(session: Session) -> None:
    ids = []
    for _ in range(13):
        ids.append(rollouts.begin(session, "lab", rollout()))
        end(session, ids[-1])
    assert ids == sorted(set(ids))
    assert [each.id for each in rollouts.list_(session)] == ids[-10:]


def test_a_list_has_every_rollout_and_who_drives_it(session: Session) -> None:
    one = rollouts.begin(session, "lab", rollout())
    two = rollouts.begin(session, "other", rollout())
    Locks(session).take(paths.rollout_lock("other", two), ME)
    assert [(each.deployment, each.id, each.record.state, each.holder) for each in rollouts.list_(session)] == [
        ("lab", one, RolloutState.RUNNING, None),
        ("other", two, RolloutState.RUNNING, ME),
    ]


# -- who may write --


def take_over(session: Session, driver: str, deployment: str = "lab") -> None:
    znode = session.get(paths.rollouts(deployment))
    assert znode is not None
    known = codec.decode(RolloutPointer, znode)
    session.commit([pointers.taken_over(znode.path, known, znode.version, driver, 7.0)])


def decided(before: Rollout) -> Rollout:
    name, record = next(iter(before.groups.items()))
    return apply(before, [Decision(name, replace(record, turn=1), "its turn")])


def test_a_driver_goes_on_from_what_it_wrote_without_reading(session: Session) -> None:
    identity = rollouts.begin(session, "lab", rollout())
    take_over(session, "a1")
    before, versions = read(session, identity)
    after = decided(before)
    written = rollouts.changes("lab", identity, before, after, versions, 9.0)
    session.commit(written)
    versions = ROLLOUT.written("lab", identity, versions, written)
    assert (after, versions) == read(session, identity)
    written = rollouts.changes("lab", identity, after, over(after), versions, 9.0)
    session.commit(written)
    assert (over(after), ROLLOUT.written("lab", identity, versions, written)) == read(session, identity)


def test_a_driver_that_was_replaced_writes_nothing(session: Session) -> None:
    identity = rollouts.begin(session, "lab", rollout())
    take_over(session, "a1")
    before, versions = read(session, identity)
    take_over(session, "a2")
    with pytest.raises(Stale):
        session.commit(rollouts.changes("lab", identity, before, decided(before), versions, 9.0))
    with pytest.raises(Stale):
        session.commit(rollouts.changes("lab", identity, before, over(before), versions, 9.0))
    assert read(session, identity)[0] == before


def test_a_driver_that_has_not_seen_what_somebody_asked_writes_nothing(session: Session) -> None:
    identity = rollouts.begin(session, "lab", rollout())
    take_over(session, "a1")
    before, versions = read(session, identity)
    after = steer(session, "lab", identity, lambda it: commands.cancel(it, 8.0, by="bob"))
    assert after.head.state is RolloutState.CANCELLING
    with pytest.raises(Stale):
        session.commit(rollouts.changes("lab", identity, before, decided(before), versions, 9.0))
    assert read(session, identity)[0] == after


def test_requests_of_two_people_both_count(session: Session) -> None:
    identity = rollouts.begin(session, "lab", rollout())
    asked = []

    def ask(it: Rollout) -> list[Decision]:
        if not asked:
            asked.append(steer(session, "lab", identity, lambda it: commands.cancel(it, 8.0, by="bob")))
        return [Decision("g0", replace(it.groups["g0"], accepted="fine"), "accepted")]

    steer(session, "lab", identity, ask)
    seen = read(session, identity)[0]
    assert (seen.head.state, seen.groups["g0"].accepted) == (RolloutState.CANCELLING, "fine")


def test_only_the_newest_goes_on_again(session: Session) -> None:
    first = rollouts.begin(session, "lab", rollout())
    end(session, first)
    steer(session, "lab", first, lambda it: commands.resume(it, 8.0))
    with pytest.raises(Conflict, match="is under way"):
        rollouts.begin(session, "lab", rollout())
    end(session, first)
    second = rollouts.begin(session, "lab", rollout())
    end(session, second)
    with pytest.raises(Conflict, match=f"rollout {first} is not the newest of deployment lab; that is {second}"):
        steer(session, "lab", first, lambda it: commands.resume(it, 8.0))


def test_to_steer_one_that_does_not_exist_is_told(session: Session) -> None:
    rollouts.begin(session, "lab", rollout())
    with pytest.raises(NotFound, match="deployment lab has no rollout 0000000007"):
        steer(session, "lab", "0000000007", lambda it: commands.cancel(it, 8.0))


# -- one line, one rollout --


def lost(before: Rollout) -> Rollout:
    """Its first group has failed, and it is over."""
    record = replace(before.groups["g0"], state=GroupState.FAILED, reason="deploy", attempt=1)
    return apply(over(before), [Decision("g0", record, "it failed")])


@pytest.mark.parametrize("other", ["system", "sub", "deep"])
@pytest.mark.parametrize("ask", ["start", "resume", "retry", "accept"])
def test_none_begins_or_goes_on_while_one_above_or_below_is_under_way(session: Session, ask: str, other: str) -> None:
    first = rollouts.begin(session, "lab", rollout())
    before, versions = read(session, first)
    session.commit(rollouts.changes("lab", first, before, lost(before), versions, 9.0))
    second = rollouts.begin(session, other, rollout())
    asked = {
        "resume": lambda it: commands.resume(it, 8.0),
        "retry": lambda it: commands.retry(it, 8.0),
        "accept": lambda it: commands.accept(it, "g0", "it may stay so", 8.0),
    }

    def go_on() -> None:
        if ask == "start":
            rollouts.begin(session, "lab", rollout())
        else:
            steer(session, "lab", first, asked[ask])

    with pytest.raises(Conflict, match=f"rollout {other}/{second} is under way"):
        go_on()
    assert read(session, first)[0].over
    assert read(session, first)[1].pointer.newest == first
    end(session, second, other)
    go_on()
    assert not load_world(session).rollouts["lab"].record.over


def test_of_a_parent_and_a_child_that_begin_at_once_one_does(zk_settings: ZooKeeperSettings, session: Session) -> None:
    for turn in range(10):
        begun: dict[str, str] = {}
        refused: list[str] = []
        together = threading.Barrier(2)

        def start(
            place: str,
            begun: dict[str, str] = begun,
            refused: list[str] = refused,
            together: threading.Barrier = together,
        ) -> None:
            with Session(zk_settings) as own:
                together.wait(30.0)
                try:
                    begun[place] = rollouts.begin(own, place, rollout())
                except Conflict:
                    refused.append(place)

        threads = [threading.Thread(target=start, args=(place,)) for place in ("lab", "deep")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(begun), len(refused)) == (1, 1), f"turn {turn}: {begun}"
        for place, identity in begun.items():
            end(session, identity, place)


def test_of_a_parent_and_a_child_that_go_on_at_once_one_does(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = rollouts.begin(session, "lab", rollout()), "deep"
    end(session, first)
    second = rollouts.begin(session, other, rollout())
    end(session, second, other)
    look, looks = lines.entered, [True]

    def look_before_the_other_goes_on(asking: Session, deployment: str) -> list[Change]:
        found = look(asking, deployment)
        if looks:
            looks.clear()
            steer(session, other, second, lambda it: commands.resume(it, 8.0))
        return found

    monkeypatch.setattr(lines, "entered", look_before_the_other_goes_on)
    with pytest.raises(Conflict, match=f"rollout {other}/{second} is under way"):
        steer(session, "lab", first, lambda it: commands.resume(it, 8.0))
    assert read(session, first)[0].over


def test_a_rollout_of_a_deployment_that_is_gone_does_not_begin(session: Session) -> None:
    session.commit([Delete(paths.deployment("other"), 0)])
    with pytest.raises(NotFound, match="deployment other does not exist"):
        rollouts.begin(session, "other", rollout())
    assert not session.children(paths.rollouts("other"))


def test_a_rollout_that_begins_raises_the_structure_so_that_no_deployment_goes_meanwhile(session: Session) -> None:
    before = session.get(paths.STRUCTURE)
    rollouts.begin(session, "lab", rollout())
    after = session.get(paths.STRUCTURE)
    assert before is not None
    assert after is not None
    assert after.version == before.version + 1


def test_where_a_deployment_between_cannot_be_read_no_rollout_begins_beside_one_that_may_be_above(
    session: Session,
) -> None:
    """Whoever drives the one above may still know it as it was."""
    rollouts.begin(session, "lab", rollout())
    garble(session, "sub")
    with pytest.raises(Conflict, match="rollout lab/0000000000 is under way, and deployment lab may have to do"):
        rollouts.begin(session, "deep", rollout())
    with pytest.raises(Conflict, match="the record /ocb/deployments/sub cannot be read"):
        rollouts.begin(session, "sub", rollout())
    assert rollouts.newest(session, "deep") is None
    rollouts.begin(session, "other", rollout())


def test_a_rollout_under_way_whose_deployment_cannot_be_read_still_keeps_out_those_below(session: Session) -> None:
    rollouts.begin(session, "sub", rollout())
    garble(session, "sub")
    with pytest.raises(Conflict, match="rollout sub/0000000000 is under way"):
        rollouts.begin(session, "deep", rollout())


def garble(session: Session, deployment: str) -> None:
    """As a later version may write it."""
    znode = session.get(paths.deployment(deployment))
    assert znode is not None
    session.commit([Set(paths.deployment(deployment), {"schema": 2}, znode.version)])
