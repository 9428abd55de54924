"""What a run needs, condition by condition."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.engine.readiness import Code, blockers, runnable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import Deployment, DeploymentState, Node, Role, State
from tests.engine.worlds import put, world

PROPOSED = Stored(Deployment(parent=None, state=DeploymentState.PROPOSED), 3)


@pytest.mark.parametrize(
    ("lacks", "code"),
    [
        (lambda made: made.put_role("app", Stored(Role(barclamp="b", jig="chef"), 0)), Code.JIG_INACTIVE),
        (lambda made: made.put_deployment("system", PROPOSED), Code.DEPLOYMENT_PROPOSED),
        (lambda made: made.put_node("n", Node(alive=False), 5), Code.NODE_NOT_ALIVE),
        (lambda made: made.put_node("n", Node(alive=True, available=False), 5), Code.NODE_NOT_AVAILABLE),
        (lambda made: put(made, "other@n", State.TRANSITION), Code.NODE_BUSY),
    ],
)
def test_the_four_conditions_of_a_run(lacks: Callable[[World], object], code: Code) -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    assert runnable(made, vertex, 1.0, {"noop"})
    lacks(made)
    assert not runnable(made, vertex, 1.0, {"noop"})
    assert [reason.code for reason in blockers(made, vertex, 1.0, {"noop"})] == [code]


def test_what_runs_on_another_node_holds_nothing_back() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    put(made, "other@m", State.TRANSITION)
    assert runnable(made, vertex, 1.0, {"noop"})
