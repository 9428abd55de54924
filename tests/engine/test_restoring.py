"""The pause with which a restoring begins."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.recovery import restoring
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Deployment, NodeRole, Set, State, Structure
from tests.engine.worlds import put, world

NOW = 2e9


def pauses(before: Maintenance | None) -> list[Maintenance | None]:
    """What the first transaction writes as the pause of everything."""
    made = world()
    made.annealers.clear()
    made.put(Stored(Structure(), 0))
    stored = made.deployments["system"]
    made.put(Stored(replace(stored.record, pause=before), stored.version), "system")
    first = next(restoring.restored(made, {}, NOW, "ann", "an old copy"))
    mine = [each for each in first if isinstance(each, Set) and each.path == paths.deployment("system")]
    return [each.data.pause for each in mine if isinstance(each.data, Deployment)]


def test_everything_is_paused_until_a_person_resumes_it() -> None:
    assert [each and (each.by, each.until) for each in pauses(None)] == [("ann", None)]
    assert pauses(Maintenance(by="bob", reason="power", since=1.0)) == [], "a pause without an end stays"
    brief = Maintenance(by="bob", reason="power", since=1.0, until=NOW + 60)
    assert pauses(brief) == [replace(brief, until=None)], "nothing begins by itself when its time is up"


def test_no_daemon_may_be_registered() -> None:
    made = world()
    made.put(Stored(Structure(), 0))
    with pytest.raises(Conflict) as refused:
        next(restoring.restored(made, {}, NOW, "ann", None))
    assert str(refused.value) == (
        "annealer a is registered, on h: stop every daemon, and wait until its session is over; see: nodepool-ocb daemon list"
    )


def test_a_run_that_was_under_way_is_to_run_again_under_a_number_above_all_of_the_lost_time() -> None:
    made = world()
    made.annealers.clear()
    made.put(Stored(Structure(), 0))
    put(made, "app@n", State.TRANSITION, run="r1")
    *_, last = restoring.restored(made, {}, NOW, "ann", None)
    (written,) = (each for each in last if isinstance(each, Set))
    assert (written.path, written.version) == (paths.noderole("app", "n"), 7)
    assert isinstance(written.data, NodeRole)
    assert (written.data.state, written.data.generation) == (State.TODO, int(NOW * 1000))
