"""A rollout that redeploys: the noderoles that it moves, the ones that it waits for, and those that a cancel takes back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.commands import apply_all
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import NodeRole, Role, State
from nodepool_ocb.rollout import reading
from nodepool_ocb.rollout.commands import cancel
from nodepool_ocb.rollout.observer import Observer, followers
from nodepool_ocb.rollout.plan import Again, begin
from nodepool_ocb.rollout.records import Rollout, apply
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.step import Action, Directive
from nodepool_ocb.rollout.strategy import WHOLE, without_idle_phases
from tests.rollout.test_rollout_observing import in_flight, world

N = "n1.x.y"
OS, APP, OHAI = f"os@{N}", f"app@{N}", f"ohai@{N}"


def there(jig: str = "install", **states: str) -> World:
    """A machine with the noderole os, which was done once, app below it, and ohai beside it."""
    made = world(
        {OS: "ACTIVE", APP: "ACTIVE", OHAI: "ACTIVE"} | {f"{role}@{N}": s for role, s in states.items()}, {APP: [OS]}
    )
    made.put(Stored(Role(barclamp="p", jig=jig, flags=("destructive",)), 0), "os")
    change(made, OS, once="done", epoch=4)
    return made


def change(made: World, name: str, **fields: object) -> None:
    vertex = made.vertex(name)
    assert vertex is not None
    made.put_noderole(vertex.node.name, vertex.role, vertex.record.amended(**fields), 1)


def record(made: World, name: str) -> NodeRole:
    vertex = made.vertex(name)
    assert vertex is not None
    return vertex.record


def rollout(made: World) -> Rollout:
    again = Again("role os", {N: {"os": 4}}, redeploy=True)
    return in_flight(begin(without_idle_phases(WHOLE), inventory(made, "lab"), 0.0, again=again))


def moved(made: World, directive: Directive, sent: Rollout) -> dict[Event, list[str]]:
    """The events that an action gives, which then happen."""
    phase = len(sent.head.strategy.phases) - 1
    found = Observer(made, "lab", sent).moves([Action(directive, N, phase)])
    for transaction in apply_all(made, found, 1.0):
        for written in transaction:
            if isinstance(data := getattr(written, "data", None), NodeRole):
                change(
                    made,
                    f"{written.path.rsplit('/', 1)[1]}@{N}",
                    **{f: getattr(data, f) for f in ("state", "once", "redeploy")},
                )
    return {event: [vertex.name for vertex in vertices] for event, vertices in found.items()}


def test_a_destructive_noderole_that_was_done_is_redeployed_once_and_then_waited_for() -> None:
    made = there()
    sent = rollout(made)
    assert Observer(made, "lab", sent).seen()[N].outdated == 1
    assert moved(made, Directive.COMMIT, sent) == {Event.REDEPLOY: [OS]}
    assert record(made, OS).state is State.TODO
    assert Observer(made, "lab", sent).seen()[N].waiting == 1
    assert moved(made, Directive.COMMIT, sent) == {}, "at most once"


@pytest.mark.parametrize(("jig", "waits"), [("install", ["app", "ohai"]), ("script", ["app"])])
def test_a_node_is_done_when_the_noderoles_that_the_redeployment_set_back_are_active_again(
    jig: str, waits: list[str]
) -> None:
    made = there(jig)
    sent = rollout(made)
    vertex = made.vertex(OS)
    assert vertex is not None
    assert [each.role for each in followers([vertex])] == waits
    change(made, OS, epoch=5)
    for role in waits:
        change(made, f"{role}@{N}", state=State.TODO)
        assert not Observer(made, "lab", sent).seen()[N].done
        change(made, f"{role}@{N}", state=State.ERROR)
        assert list(Observer(made, "lab", sent).seen()[N].errors) == [role]
        assert moved(made, Directive.RETRY, sent) == {Event.RETRY: [f"{role}@{N}"]}
        change(made, f"{role}@{N}", state=State.ACTIVE)
    assert Observer(made, "lab", sent).seen()[N].done
    node = made.nodes[N].record
    assert node is not None
    made.put_node(N, replace(node, dying=True), 1)
    assert not Observer(made, "lab", sent).seen()[N].done, "they are about to be set back"


def test_an_error_beside_it_from_before_the_rollout_does_not_fail_the_node() -> None:
    made = there(ohai="ERROR")
    assert not Observer(made, "lab", rollout(made)).seen()[N].lost


@pytest.mark.parametrize("directive", [Directive.RECALL, Directive.CANCEL])
def test_a_redeployment_that_has_not_begun_is_taken_back_and_no_later_commit_erases_the_disk(
    directive: Directive,
) -> None:
    made = there()
    sent = rollout(made)
    moved(made, Directive.COMMIT, sent)
    assert moved(made, directive, sent) == {Event.WITHDRAW: [OS]}
    assert (record(made, OS).state, record(made, OS).once, record(made, OS).redeploy) == (State.ACTIVE, "done", False)


def test_a_run_that_waits_for_another_attempt_is_proposed_when_the_rollout_is_cancelled() -> None:
    made = there()
    sent = rollout(made)
    change(made, OS, state=State.TODO, epoch=5, once=None)
    assert moved(made, Directive.CANCEL, sent) == {Event.PROPOSE: [OS]}


def test_a_cancelled_rollout_does_not_wait_for_the_noderoles_that_follow() -> None:
    made = there(app="TODO")
    sent = rollout(made)
    change(made, OS, epoch=5)
    assert Observer(made, "lab", sent).seen()[N].waiting == 1
    assert Observer(made, "lab", apply(sent, cancel(sent, 2.0, "ann", None))).seen()[N].done


def test_a_proposed_noderole_of_the_role_is_committed() -> None:
    made = there(os="PROPOSED")
    change(made, OS, once=None)
    assert moved(made, Directive.COMMIT, rollout(made)) == {Event.COMMIT: [OS]}


def test_a_document_names_the_roles_that_it_redeploys() -> None:
    text = "groups: [{name: all, critical: true, depends_on: [], selectors: []}]\nredeploy: [os]\n"
    assert reading.load(text, called="f.yaml").redeploy == ("os",)
    with pytest.raises(Invalid, match="redeploy"):
        reading.load(text.replace("[os]", "os"), called="f.yaml")
