"""What is held: a node, from the sending of a claim to the answer that gives it back; and what its slot gives back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from nodepool_ocb.engine import claim
from nodepool_ocb.jigs.jig import Outcome
from nodepool_ocb.model.records import Change, Role


class Attempt:
    """A node that this annealer works on, from the sending of the claim to the answer that gives it back."""

    def __init__(self, grant: claim.Grant, role: Role, session: int) -> None:
        self.grant = grant
        self.role = role  # as it was claimed: what becomes of the catalogue meanwhile does not matter
        self.session = session
        self.confirmed = False  # the claim is written
        self.finished: Finished | None = None  # what is to be written
        self.writing = False  # ... and is under way
        self.refusals = 0
        self.smallest = False  # what was to be written with it was refused as too large
        self.stop = threading.Event()  # for the jig: leave the run alone
        self.gone = threading.Event()  # the node is not ours any more
        self.cancel_reason: str | None = None  # the run is to be ended on its machine, and why
        self.ordered = False  # the jig was given its order
        self.begun = False  # ... and may have begun with it
        self.unreached = 0
        self.faults = 0  # of this host, while it worked on this
        self.releasing = False
        self.slot = False

    @property
    def name(self) -> str:
        return self.grant.vertex.name

    @property
    def fqdn(self) -> str:
        return self.grant.fqdn

    def let_go(self) -> None:
        """The node is not ours any more; from any thread."""
        self.gone.set()
        self.stop.set()

    def cancel(self, reason: str) -> None:
        """The run is to be ended: its jig leaves it alone first."""
        self.cancel_reason = reason
        self.stop.set()

    @property
    def jig(self) -> str:
        """That the run is asked about by: the one that it was ordered with."""
        return self.grant.jig or self.role.jig

    @property
    def changed(self) -> bool:
        """Whether its role was given another jig since the run that is taken over was ordered."""
        return self.jig != self.role.jig

    @property
    def untouched(self) -> bool:
        """Whether it was certainly not begun, and may go back as if it had not been claimed.

        What is refreshed may not: its children would wait for it.
        """
        known = not self.begun and self.grant.previous_epoch is None and not self.cancel_reason
        return known and not self.grant.record.refresh

    @property
    def destructive(self) -> bool:
        """Whether it must not be done twice, by its role now or when it was first claimed."""
        return "destructive" in self.role.flags or self.grant.record.once == "started"


class Finished(msgspec.Struct, frozen=True):
    """What a slot gives back."""

    outcome: Outcome
    ended: float = 0.0
    results: Sequence[Change] = ()  # the wall
    again_after: float | None = None  # seconds; what became of it is not known, and is to be asked once more
    sent: dict[str, Any] | None = None  # the attributes that the jig was given
    spoiled: str | None = None  # the path of attributes that cannot be read: no order was given
