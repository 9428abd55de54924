"""Whether the deployment of a rollout is paused: then nothing is sent, no group begins, and its own time stands still."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine.maintenance import sentence
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.rollout.records import Decision, Rollout, brief


def decide(rollout: Rollout, pause: Maintenance | None, now: float) -> list[Decision]:
    """The rollout says that it is paused, and why; or how long it has been when that is over. Once each."""
    head, why = rollout.head, brief(sentence(pause)) if pause is not None else None
    if rollout.over or head.aside == why:
        return []
    if pause is None:
        stood = max(now - (now if head.aside_since is None else head.aside_since), 0.0)
        after = replace(head, aside=None, aside_since=None, aside_seconds=head.aside_seconds + stood)
        return [Decision("", after, "goes on: its deployment is not paused any more")]
    since = head.aside_since if head.aside_since is not None else min(max(pause.since, head.started), now)
    return [Decision("", replace(head, aside=why, aside_since=since), f"its deployment is paused {why}")]
