"""An installation under way: what it keeps from the node, and what keeps it from nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import installing, liveness
from nodepool_ocb.engine.acting.overdue import overdue
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.readiness import Code, blockers, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model.aliveness import Mark, Marker
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Claim, Daemon, Node, Role, State
from nodepool_ocb.provisioning.installation import failed
from nodepool_ocb_annealer.machines.judging import probed
from tests.engine.worlds import put, world

NOW = 100.0


def under_way(**fields: Any) -> tuple[World, Vertex]:
    """A world with an installation on node n; ``fields`` are of its record."""
    made = world()
    made.put(Stored(Role(barclamp="p", jig="install", flags=("destructive",)), 0), "os")
    vertex = put(made, "os@n", State.TRANSITION)
    made.put_node("n", Node(alive=True, allow_install=True, addresses=("192.0.2.1",)), 5)
    made.put_noderole("n", "os", replace(vertex.record, generation=3, run="r"), 7)
    record = Installation(
        noderole="os@n", generation=3, run="r", epoch=1, since=0.0, started=0.0, deadline=900.0, nonce="0" * 32,
        token_digest="0" * 64,
    )  # fmt: skip
    made.put(Stored(replace(record, **fields), 0), "n")
    return made, vertex


@pytest.mark.parametrize(
    "fields",
    [{"generation": 2}, {"noderole": "other@n"}, {"reason": "it failed"}, {"step": InstallStep.ALIVE}],
)
def test_a_record_of_another_run_or_of_one_that_is_over_counts_for_nothing(fields: dict[str, Any]) -> None:
    made, vertex = under_way()
    assert installing.of_vertex(vertex) is not None
    assert installing.under_way(made.nodes["n"]) is not None
    made, vertex = under_way(**fields)
    assert installing.of_vertex(vertex) is None
    assert installing.under_way(made.nodes["n"]) is None


def test_no_probe_asks_a_machine_that_is_installed() -> None:
    made, _ = under_way()
    assert not probed(made.nodes["n"], NOW)
    made, _ = under_way(reason="it failed")
    assert probed(made.nodes["n"], NOW)


def codes(made: World, vertex: Vertex) -> list[Code]:
    return [reason.code for reason in blockers(made, vertex, NOW, {"install"})]


def test_an_installation_is_taken_over_on_a_node_that_is_held_or_that_does_not_answer() -> None:
    hold = Maintenance(by="ann", since=0.0, reason="repair")
    mark = Mark(kind=Marker.PERSON, by="ann", since=0.0)
    for node in (Node(alive=True, hold=hold), Node(alive=False, allow_install=True), Node(alive=False, mark=mark)):
        made, vertex = under_way()
        made.put_node("n", node, 6)
        assert codes(made, vertex) == []
        made.drop(Installation, "n")
        assert codes(made, vertex), "any other run waits"


HELD: Final = Maintenance(by="ann", since=1.0, until=50.0)
KEPT_AWAY: Final[dict[str, tuple[Node, dict[str, Any]]]] = {
    "its hold ends": (Node(alive=False, hold=HELD), {}),
    "it is released": (Node(alive=False, hold=replace(HELD, until=None)), {"hold": None}),
    "it is available again": (Node(alive=False, available=False), {"available": True}),
    "a person calls it dead": (Node(alive=True), {"alive": False}),
}


@pytest.mark.parametrize("case", KEPT_AWAY)
def test_no_word_about_the_machine_ends_its_installation(case: str) -> None:
    """A node is not alive after an installer failed, so the next installation may meet each of these."""
    made, vertex = under_way(step=InstallStep.WRITTEN, token_used=5.0)
    other = put(made, "dns@n", State.ACTIVE)
    node, fields = KEPT_AWAY[case]
    made.put_node("n", node, 6)
    view = made.nodes["n"]
    advance(made, liveness.changed(made, view, NOW, "ann", **fields) if fields else liveness.went_on(view, NOW))
    assert (vertex.record.state, vertex.record.generation) == (State.TRANSITION, 3)
    assert installing.of_vertex(vertex) is not None
    assert other.record.state is State.TODO, "the others are set back"
    made.drop(Installation, "n")
    made.put_node("n", node, 7)
    advance(made, liveness.changed(made, view, NOW, "ann", **fields) if fields else liveness.went_on(view, NOW))
    assert vertex.record.state is State.TODO, "any other run ends"


def test_an_attempt_after_one_that_erased_the_system_needs_no_machine_that_answers() -> None:
    made, vertex = under_way(token_used=5.0)
    made.put(Stored(failed(made.of(Installation)["n"].record, "no disk"), 1), "n")
    made.put_noderole("n", "os", replace(vertex.record, state=State.TODO, generation=4), 8)
    made.put_node("n", Node(alive=False, allow_install=True), 6)
    assert codes(made, vertex) == []
    made.put(Stored(replace(made.of(Installation)["n"].record, token_used=None), 1), "n")
    assert codes(made, vertex) == [Code.NODE_NOT_ALIVE]


@pytest.mark.parametrize("step", [InstallStep.PUBLISHED_INSTALL, InstallStep.REBOOTING])
def test_an_attempt_after_one_that_told_the_machine_to_boot_needs_no_machine_that_answers(step: InstallStep) -> None:
    """Such as a machine in the discovery environment that lost its power: its disk is empty, so it answers nowhere."""
    made, vertex = under_way(step=step)
    made.put(Stored(failed(made.of(Installation)["n"].record, "the machine was not switched"), 1), "n")
    made.put_noderole("n", "os", replace(vertex.record, state=State.TODO, generation=4), 8)
    made.put_node("n", Node(alive=False, allow_install=True), 6)
    assert codes(made, vertex) == []


def test_it_is_never_overdue_and_explain_has_its_step_and_its_obstacle() -> None:
    made, vertex = under_way(step=InstallStep.REBOOTING, waits="the installer has not spoken yet")
    made.put_claim("n", Claim(annealer="a", noderole="os@n", run="r", epoch=1, since=0.0), owner=1)
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=("install",)), 0), "annealer", "a")
    assert overdue(made, vertex, 1e6) is None
    [sentence] = [reason.text for reason in why_not(made, vertex, NOW) if reason.code is Code.RUNNING]
    assert sentence == (
        "annealer a works on it: it installs the machine; step rebooting is done; the installer has not spoken yet;"
        " 800 s are left"
    )


def test_the_token_of_a_boot_opens_one_node_while_its_installation_is_under_way() -> None:
    made, _ = under_way(token="0" * 12)
    found = installing.boot_credential(made, "0" * 12)
    assert found is not None
    assert (found.selector, found.role) == ("name:n", "boot")
    assert installing.boot_credential(made, "1" * 12) is None
    made, _ = under_way(token="0" * 12, reason="it failed")
    assert installing.boot_credential(made, "0" * 12) is None
