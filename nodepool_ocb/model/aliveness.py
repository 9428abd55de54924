"""What is said of a node's aliveness, in its record: who suspects that it is dead, and who marked it so."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nodepool_ocb.model.ranges import Moment


class Suspicion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An annealer does not reach a node that is alive; before it counts as dead, another one has to find the same."""

    by: str  # the annealer
    reason: str  # "connect: ...", with the step that failed
    since: Moment


class Marker(StrEnum):
    """Who may say that a node is not alive, whatever probes find."""

    PERSON = "person"  # ends by a person's word alone, or when its time is up
    HOOK = "hook"  # ends by the word of a hook, of the machine or of a person
    MACHINE = "machine"  # ends by the word of the machine or of a person


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody says that a node is not alive: while that holds, nobody probes it."""

    kind: Marker
    by: str  # the person, the role whose hook it was, or who spoke for the machine
    reason: str | None = None
    since: Moment
    until: Moment | None = None  # it holds no longer then
