"""Statements about a node's aliveness, in its record: the suspicion that it is dead, and the mark."""

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
    """The kinds of authors of a mark, which holds against probes."""

    PERSON = "person"  # ends by a person's word alone, or when its time is up
    HOOK = "hook"  # ends by the word of a hook, of the machine or of a person
    MACHINE = "machine"  # ends by the word of the machine or of a person


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The statement that a node is not alive: while it holds, the node is not probed."""

    kind: Marker
    by: str  # the person, the role of the hook, or the caller that spoke for the machine
    reason: str | None = None
    since: Moment
    until: Moment | None = None  # it holds no longer then
