"""The hook that a noderole gets when it enters a state (seeds 000 and 001)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine.placed import Placed
from nodepool_ocb.model.records import NodeRole, State

#: The hook that a role may have for each state (seeds 000 and 001).
HOOK_OF: Final[Mapping[State, str]] = {
    State.PROPOSED: "on_proposed",
    State.BLOCKED: "on_blocked",
    State.TODO: "on_todo",
    State.TRANSITION: "on_transition",
    State.ACTIVE: "on_active",
    State.ERROR: "on_error",
}


def with_hook(vertex: Placed, record: NodeRole, before: NodeRole) -> NodeRole:
    """The record, with the hook of the state that it enters, if its role has one; ``before``: the record that it replaces."""
    if record.state is before.state or record.state is State.TRANSITION:
        return record
    hook = HOOK_OF[record.state]
    if hook not in vertex.hooks or hook in record.hooks or _skipped(before, record):
        return record
    return record.amended(hooks=(*record.hooks, hook))


def _skipped(before: NodeRole, after: NodeRole) -> bool:
    """Whether it became ACTIVE by SKIP (a run that ends makes ``once`` "done", and finds "started" there) or CHECKED."""
    done = after.once == "done" and (before.once == "done" or before.redeploy)
    return after.state is State.ACTIVE and (done or before.check is not None)
