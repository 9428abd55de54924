"""Where no annealer begins anything, every noderole that is to be claimed says so, whatever is wanted of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Claim, Node, State
from tests.engine.worlds import put, world

WISHES: Final[Mapping[str, dict[str, Any]]] = {
    "nothing": {},
    "a refresh": {"refresh": True},
    "a check": {"refresh": True, "check": PendingCheck()},
    "a cancellation": {"cancel_reason": "ann cancels it"},
}
JIGS: Final = {"noop"}


def annealers(made: World, *each: dict[str, Any]) -> World:
    """Annealers a, b, ... with these fields, in place of those that are there."""
    (usual,) = made.annealers.values()
    for identity, fields in zip("abc", each, strict=False):
        made.put(Stored(replace(usual, **fields), 0), "annealer", identity)
    return made


PAUSED, SICK, ENDING = {"paused": "by ann: play"}, {"trouble": "its key cannot be read"}, {"state": "draining"}

#: Annealers of which none may begin anything, and the codes of the reasons.
NONE_ABLE: Final[Mapping[str, tuple[tuple[dict[str, Any], ...], list[Code]]]] = {
    "paused": ((PAUSED,), [Code.PAUSED]),
    "not ready": ((SICK,), [Code.NO_ANNEALER]),
    "ending": ((ENDING,), [Code.NO_ANNEALER]),
    "one of each": ((PAUSED, SICK, ENDING), [Code.PAUSED, Code.NO_ANNEALER, Code.NO_ANNEALER]),
    "the only one with the jig": ((PAUSED, {"jigs": ("test",)}), [Code.PAUSED]),
}


@pytest.mark.parametrize("how", NONE_ABLE)
@pytest.mark.parametrize(("state", "wish"), [*itertools.product(State, WISHES)])
def test_what_an_annealer_could_claim_names_why_none_does(state: State, wish: str, how: str) -> None:
    each, codes = NONE_ABLE[how]
    made = annealers(world(), *each)
    vertex = put(made, "app@n", state, **WISHES[wish])
    found = [reason.code for reason in why_not(made, vertex, 1.0)]
    if runnable(made, vertex, 1.0, JIGS):
        assert found == codes
    else:
        assert found


def test_one_annealer_that_may_act_is_enough() -> None:
    made = annealers(world(), PAUSED, SICK, {})
    assert why_not(made, put(made, "app@n", State.ACTIVE, refresh=True), 1.0) == []


def test_a_trouble_with_machines_holds_back_nothing_of_a_virtual_node() -> None:
    made = annealers(world(), SICK)
    made.put_node("n", Node(virtual=True), 5)
    made.put_fence("n", 6)
    assert why_not(made, put(made, "app@n", State.TODO), 1.0) == []


def test_what_runs_is_not_held_up_by_a_pause() -> None:
    made = annealers(world(), PAUSED)
    vertex = put(made, "app@n", State.TRANSITION)
    made.put_claim("n", Claim(annealer="a", noderole="app@n", run="1-a", epoch=1, since=1.0), 1, 77)
    assert [reason.code for reason in why_not(made, vertex, 1.0)] == [Code.RUNNING]
