"""What people are shown of drift that a refresh by a schedule did not mend."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.drift import CheckResult, Checks, Drift
from nodepool_ocb.model.records import Deployment, DeploymentState, Node, NodeRole, Role, Run, State
from nodepool_ocb.views.drift import found

FOUND = CheckResult(drift=Drift.DRIFTED, at=5.0, run="0000000007-aaaaaa-check", epoch=7)
RUN = Run(
    annealer="a", started=1.0, ended=5.0, outcome="drifted", epoch=7, generation=1, tail="/etc/motd has mode 666\n"
)


def world(checked: CheckResult) -> World:
    made = World()
    made.put(Stored(Role(barclamp="b", jig="script", check="true"), 0), "motd")
    checks = Checks(schedule="* * * * *", since=0.0, refresh=True)
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED, checks=checks), 0), "system")
    made.put_node("n1.example.com", Node(alive=True), 0)
    made.put_noderole("n1.example.com", "motd", NodeRole.of(state=State.ACTIVE, since=0.0, checked=checked), 0)
    return made


def test_drift_that_a_refresh_did_not_mend_is_told_from_other_drift() -> None:
    for unmended in (False, True):
        made = world(replace(FOUND, unmended=unmended))
        [vertex] = made.vertices()
        row = found.row(vertex, RUN)
        assert row.drift == "drifted"
        assert row.unmended is unmended
        assert ("a refresh by the schedule changed nothing" in str(row.difference)) is unmended
        assert "/etc/motd has mode 666" in str(row.difference)
        [counted] = found.by_deployment(made)
        assert (counted.drifted, counted.unmended) == (1, int(unmended))
