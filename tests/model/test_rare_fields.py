"""The rare fields of noderoles are read and changed as all others are."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.drift import CheckResult, Drift, PendingCheck
from nodepool_ocb.model.records import RARE, USUAL, NodeRole, State, keys_of

#: Each with a value that is not its default.
UNUSUAL: dict[str, Any] = {
    "serves": ("dns",),
    "reason": "no disk",
    "refresh": True,
    "check": PendingCheck(since=1.0),
    "checked": CheckResult(drift=Drift.DRIFTED, at=1.0, run="r1", epoch=1),
    "mended": True,
    "once": "done",
    "redeploy": True,
    "not_before": 5.0,
    "hooks": ("on_todo",),
    "cancel_reason": "time is up",
    "task_run": "0000000001",
    "rank": 4,
}


@pytest.mark.parametrize("field", sorted(RARE))
def test_a_rare_field_is_read_changed_and_put_back(field: str) -> None:
    plain = NodeRole(state=State.ACTIVE, since=0.0, generation=3)
    changed = plain.amended(**{field: UNUSUAL[field]}, generation=4)
    assert (getattr(changed, field), changed.generation) == (UNUSUAL[field], 4)
    assert changed == NodeRole.of(state=State.ACTIVE, since=0.0, generation=4, **{field: UNUSUAL[field]})
    assert changed.amended(**{field: getattr(USUAL, field)}, generation=3) == plain
    assert changed.amended(**{field: getattr(USUAL, field)}).rare is USUAL


def test_every_key_of_a_noderole_is_an_attribute_of_it() -> None:
    record = NodeRole.of(state=State.ACTIVE, since=0.0, **UNUSUAL)
    assert {name: getattr(record, name) for name in keys_of(NodeRole) if name in RARE} == UNUSUAL
    assert {"state", "since", "deployment", "parents", "run", "by"} < {*keys_of(NodeRole)}
