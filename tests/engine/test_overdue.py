"""A slot that is held longer than its run can last is named."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.acting.overdue import BEYOND_SECONDS, all_overdue
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.jigs.script import GRACE_SECONDS
from nodepool_ocb.model.records import Claim, Role, State
from tests.engine.worlds import put, world


@pytest.mark.parametrize(("held", "named"), [(10.0 + BEYOND_SECONDS, False), (11.0 + BEYOND_SECONDS, True)])
def test_what_is_held_longer_than_its_run_can_last_is_named_with_its_annealer(held: float, named: bool) -> None:
    made = world()
    vertex = put(made, "app@n", State.TRANSITION)
    other = put(made, "below@n", State.TODO)
    made.put(Stored(Role(barclamp="b", jig="noop", timeout_seconds=10.0), 0), "app")
    claim = Claim(annealer="a1", noderole="app@n", run="r", epoch=1, since=1000.0)
    made.put_claim("n", claim, 1, 0)
    found = [reason for reason in why_not(made, vertex, 1000.0 + held) if reason.code is Code.OVERDUE]
    assert [reason.text.startswith("annealer a1 holds it") for reason in found] == [True] * named
    assert list(all_overdue(made, 1000.0 + held)) == found
    assert not any(reason.code is Code.OVERDUE for reason in why_not(made, other, 1000.0 + held))


def test_a_run_that_its_jig_gives_up_in_time_is_not_named() -> None:
    assert BEYOND_SECONDS > 1.5 * GRACE_SECONDS
