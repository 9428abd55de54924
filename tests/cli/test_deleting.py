"""What a command deletes is what it judged: whatever came, went or changed meanwhile has it judge again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from click.testing import Result
from msgspec.structs import replace

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine import binding, claim, commands
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.readiness import Code, blockers
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, Node, Role, RolloutPointer, Run, Set
from nodepool_ocb.rollout import plan, strategy
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.deletions import deletion_of_deployment, deletion_of_node

Ocb = Callable[..., Result]
Ask = Callable[..., object]
Meanwhile = Callable[[Session], None]

N1, N2 = "n1.example.com", "n2.example.com"


@pytest.fixture
def lab(world: Session, ocb: Ocb) -> Session:
    """n1 with base ← middle ← top, of which base is TODO; n2 with nothing; nobody works."""
    _happen(world, Event.COMMIT, f"base@{N1}")
    assert ocb("node", "create", N2, "--deployment", "lab").exit_code == 0
    for name, requires in (("unrelated", ()), ("leaf", ("top",))):
        world.commit([Create(paths.role(name), Role(barclamp="b", jig="noop", requires=requires))])
    view = load_world(world).nodes[N1]
    world.commit([Set(paths.node(N1), replace(_present(view.record), alive=True), view.version)])
    return world


def _happen(session: Session, event: Event, *names: str) -> None:
    world = load_world(session)
    for transaction in commands.apply_to(world, [_vertex(world, name) for name in names], event, 1.0):
        session.commit(transaction)


def _claimed(session: Session) -> None:
    world = load_world(session)
    session.commit(claim.claiming(world, claim.take(world, _vertex(world, f"base@{N1}"), "a", "r1", 1.0)))


def _claimed_and_done(session: Session) -> None:
    world = load_world(session)
    hold = claim.take(world, _vertex(world, f"base@{N1}"), "a", "r1", 1.0)
    session.commit(claim.claiming(world, hold))
    session.commit(claim.releasing(hold))


def _bound(session: Session) -> None:
    session.commit(binding.plan(load_world(session), "unrelated", N1, now=1.0).changes)


def _child_elsewhere(session: Session) -> None:
    world = load_world(session)
    session.commit(binding.plan(world, "leaf", N2, now=1.0, parents=[f"top@{N1}"]).changes)


def _changed(session: Session) -> None:
    view = load_world(session).nodes[N1]
    session.commit([Set(paths.node(N1), replace(_present(view.record), rack="r9"), view.version)])


def _committed(session: Session) -> None:
    _happen(session, Event.COMMIT, f"top@{N1}")


MEANWHILE: dict[str, Meanwhile] = {
    "an annealer claims it": _claimed,
    "an annealer claims it and gives it back": _claimed_and_done,
    "a role is bound to it": _bound,
    "a child of its noderole is bound elsewhere": _child_elsewhere,
    "its record changes": _changed,
    "a noderole of it is committed": _committed,
}


@pytest.mark.parametrize("hooks", [(), ("on_node_delete",)], ids=["at once", "after its hooks"])
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE.keys())
def test_a_node_that_anything_happened_to_after_it_was_judged_is_not_deleted(
    lab: Session, meanwhile: Meanwhile, hooks: tuple[str, ...]
) -> None:
    if hooks and meanwhile is _committed:
        pytest.skip("the node is marked only, and whoever takes it away judges anew")
    lab.commit([Create(paths.role("hooked"), Role(barclamp="b", jig="noop", hooks=hooks))])
    judged = load_world(lab)
    meanwhile(lab)
    before = _names(lab)
    with pytest.raises(Stale):
        _write(lab, deletion_of_node(lab, judged, N1))
    assert not _present(load_world(lab).nodes[N1].record).deleting
    assert _names(lab) == before


def test_a_node_that_is_at_work_is_refused_when_it_is_judged_again(lab: Session) -> None:
    views = [load_world(lab)]
    _claimed(lab)
    with pytest.raises(Conflict, match="is at work"):
        performer().decided(lab, lambda: deletion_of_node(lab, views.pop() if views else load_world(lab), N1))
    assert lab.get(paths.claim(N1)) is not None


def test_a_node_with_a_long_history_is_marked_first_and_whoever_comes_later_goes_on(lab: Session, ask: Ask) -> None:
    _long_history(lab)
    world = load_world(lab)
    transactions = deletion_of_node(lab, world, N1)
    for _ in range(2):
        lab.commit(next(transactions))
    world = load_world(lab)
    assert _present(world.nodes[N1].record).deleting
    vertex = _vertex(world, f"base@{N1}")
    assert Code.NODE_DELETING in {each.code for each in blockers(world, vertex, 1.0, ("noop",))}
    with pytest.raises(Conflict, match="being deleted"):
        binding.plan(world, "unrelated", N1, now=1.0)
    with pytest.raises(Conflict, match="being deleted"):
        binding.plan(world, "leaf", N2, now=1.0, parents=[f"base@{N1}"])
    ask("node", "delete", N1, "--yes")
    assert lab.get(paths.node(N1)) is None


def test_a_noderole_that_cannot_be_read_is_named_and_its_node_stays(lab: Session, ocb: Ocb) -> None:
    vertex = _vertex(load_world(lab), f"top@{N1}")
    lab.commit([Set(paths.noderole("top", N1), {"schema": 99}, vertex.version)])
    result = ocb("node", "delete", N1, "--yes")
    assert result.exit_code == 4, result.output
    assert paths.noderole("top", N1) in result.stderr
    assert lab.get(paths.node(N1)) is not None


def test_what_depends_on_a_node_elsewhere_goes_with_it_and_nothing_hangs_in_the_air(lab: Session, ask: Ask) -> None:
    _child_elsewhere(lab)
    ask("node", "delete", N1, "--yes")
    world = load_world(lab)
    assert N1 not in world.nodes
    assert _names(lab) == set()
    assert N2 in world.nodes


def test_a_noderole_that_was_claimed_after_it_was_judged_is_not_unbound(lab: Session) -> None:
    from nodepool_ocb.store.subtree import removal_as_judged

    judged = load_world(lab)
    _claimed(lab)
    with pytest.raises(Stale):
        removal_as_judged(lab, judged, paths.noderole("base", N1))


def test_a_deployment_that_begins_a_rollout_after_it_was_judged_is_not_deleted(lab: Session, ocb: Ocb) -> None:
    assert ocb("deployment", "create", "spare").exit_code == 0
    lab.ensure(paths.ROLLOUTS)
    lab.commit([Create(paths.rollouts("spare"), RolloutPointer())])
    judged = load_world(lab)
    lab.commit([Set(paths.rollouts("spare"), RolloutPointer(newest="0000000001", over=False), 0)])
    with pytest.raises(Stale):
        _write(lab, deletion_of_deployment(lab, judged, "spare"))
    assert "spare" in load_world(lab).deployments


def test_nothing_is_bound_in_a_deployment_whose_roles_are_being_deleted(lab: Session) -> None:
    world = load_world(lab)
    stored = world.deployment_roles["lab", "base"]
    lab.commit([Set(paths.deployment_role("lab", "base"), replace(stored.record, deleting=True), stored.version)])
    with pytest.raises(Conflict, match="role base is leaving deployment lab"):
        binding.plan(load_world(lab), "base", N2, now=1.0)


def _long_history(session: Session) -> None:
    """More than one transaction can delete."""
    run = Run(annealer="a", started=0.0, ended=1.0, outcome="succeeded", generation=1, epoch=1)
    for start in (0, 300):
        session.commit([Create(paths.run("base", N1, f"{n:010d}-x"), run) for n in range(start, start + 300)])


def _write(session: Session, transactions: Iterable[Sequence[Change]]) -> None:
    for transaction in transactions:
        session.commit(transaction)


def _names(session: Session) -> set[str]:
    return {vertex.name for vertex in load_world(session).vertices()}


def _vertex(world: World, name: str) -> Vertex:
    vertex = world.vertex(name)
    assert vertex is not None, name
    return vertex


def _present(record: Node | None) -> Node:
    assert record is not None
    return record


def test_a_rollout_does_not_begin_in_a_deployment_that_moved_on_or_went_after_it_was_judged(
    lab: Session, ocb: Ocb
) -> None:
    assert ocb("deployment", "create", "spare").exit_code == 0
    judged = Check(paths.deployment("spare"), load_world(lab).deployments["spare"].version)
    assert ocb("deployment", "commit", "spare").exit_code == 0
    with pytest.raises(Stale):
        rollouts.begin(lab, "spare", plan.begin(strategy.WHOLE, {}, 1.0), [judged])
    assert rollouts.newest(lab, "spare") is None
    assert ocb("deployment", "delete", "spare", "--yes").exit_code == 0
    with pytest.raises(NotFound):
        rollouts.begin(lab, "spare", plan.begin(strategy.WHOLE, {}, 1.0), [judged])
    assert rollouts.newest(lab, "spare") is None
