"""The data of a run while the annealer holds its node, and the answer of a slot."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec

from nodepool_ocb.engine import claim, installing
from nodepool_ocb.engine.inline_runs import InlineBatch
from nodepool_ocb.engine.run import RunEvent, RunState
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import Jig, Outcome, Unreachable
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.provisioning.orders import Wish
from nodepool_ocb_annealer.runs.attributes import JigInputs, ReadAhead, Results
from nodepool_ocb_annealer.runs.conclusions import Conclusion


class SlotAnswer(msgspec.Struct, frozen=True):
    """The answer of a slot."""

    event: RunEvent
    outcome: Outcome | None = None  # None where it LEFT the run alone
    ended: float = 0.0
    results: Results = Results()
    sent: JigInputs | None = None  # the input of the jig
    ordered: bool = False  # the jig was given its order
    begun: bool = False  # ... and may have begun with it
    spoiled: str = ""  # the path of attributes that cannot be decoded
    own: bool = True  # where it is SEALED: others may be able to open it
    recorded: bool = False  # where it is a FAULT: the content of its record may have caused it
    foreign: bool = False  # where it is a FAULT: the jig of another package is at fault, and not this host

    @property
    def reason(self) -> str:
        """Why, of an outcome that has one."""
        if isinstance(self.outcome, Unreachable):
            return self.outcome.why
        return getattr(self.outcome, "reason", "")


class Attempt:
    """A run, from the sending of its claim to the answer that gives its node back.

    On the turn thread, but for ``stop`` and ``gone``, by which a slot's thread is told.
    """

    def __init__(self, grant: claim.Grant, role: Role, session: int, jigs: dict[str, Jig]) -> None:
        self.grant = grant
        self.role = role  # as it was claimed: later changes of the catalogue do not count
        self.session = session
        self.jig = grant.jig or role.jig  # that the run is asked about by: the one that it was ordered with
        self.state = RunState(
            takeover=grant.previous_epoch is not None,
            refresh=grant.record.refresh,
            destructive=not self.checking and ("destructive" in role.flags or grant.record.once == "started"),
            attaches=jigs[self.jig].attaches,
            other_jig=self.jig != role.jig,
            installing=installing.of_vertex(grant.vertex) is not None,
        )
        self.stop = threading.Event()  # for the jig: leave the run alone
        self.gone = threading.Event()  # the node is not ours any more
        self.slot = False
        self.pause_seconds = 0.0  # before an annealer is to claim it again, where it goes back untouched
        self.material: Mapping[str, Json] = {}  # attributes of this order alone: they are no input that is noted
        self.ahead: ReadAhead | None = None  # of its attributes; for its first order alone
        self.answer = SlotAnswer(RunEvent.LEFT)  # the newest that says something
        self.wish: Wish | None = None  # of an installation without a record
        self.conclusion: Conclusion | None = None  # that is being written
        self.refused: OcbError | None = None  # why the claim, or the newest write of its outcome, was refused
        self.following: Attempt | InlineBatch | None = None  # that is claimed with it

    @property
    def name(self) -> str:
        return self.grant.vertex.name

    @property
    def checking(self) -> bool:
        """Whether it is a check, which changes nothing."""
        return self.grant.record.check is not None

    @property
    def fqdn(self) -> str:
        return self.grant.fqdn

    def let_go(self) -> None:
        """The node is not ours any more; from any thread."""
        self.gone.set()
        self.stop.set()
