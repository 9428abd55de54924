"""The contract of every jig: it takes an Order and returns an Outcome. Expected faults are outcomes, not exceptions.

A jig may get the same order again, from the same annealer or from one that takes over. A jig that acts on a machine
must then not start a second run, and no run beside the first. runner.sh does this for jig script.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec.structs import replace

from nodepool_ocb import extensions
from nodepool_ocb.config import Settings
from nodepool_ocb.model.records import Json, Node, Role
from nodepool_ocb.provisioning.orders import Wish
from nodepool_ocb.telemetry.redaction import Mask

TAIL_BYTES: Final = 4096  # of the output, kept in the record of the run
LOG_BYTES: Final = 16 << 20  # of the output, kept in a file
REASON_CHARACTERS: Final = 1000


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to do a role's work on a node."""

    node: str
    record: Node
    role: str
    definition: Role
    generation: int
    epoch: int  # of the node, as claimed for this run; the machine refuses lower ones
    previous_epoch: int | None = None  # of the run that is taken over; None where the noderole was not in TRANSITION
    run: str
    attributes: dict[str, Json] = {}  # all that is visible to the role
    timeout_seconds: float = 1800.0
    check: bool = False  # change nothing: the question is whether the machine is as the role leaves it
    log: Path | None = None  # where the output goes
    log_bytes: int = LOG_BYTES  # of it, at most
    mask: Mask = Mask()  # of the secrets among the attributes: they are in no log, tail or reason

    @property
    def destructive(self) -> bool:
        """Whether it must not be done twice, not even in part."""
        return "destructive" in self.definition.flags and not self.check


class Succeeded(msgspec.Struct, frozen=True):
    """Done. ``attributes``: the values that the jig saw, with its changes.

    ``written``: the values that the run returned, alone. None: ``attributes`` is the whole view that the run returned, and
    values that it leaves out are not returned. The values that a run returned replace the wall (docs/decisions/100).

    ``ordered``: whether the run was given this order's script and attributes; False where an earlier order, with others,
    had begun it.
    """

    attributes: dict[str, Json]
    exit_code: int = 0
    tail: str = ""
    log: Path | None = None
    ordered: bool = True
    written: dict[str, Json] | None = None


class Failed(msgspec.Struct, frozen=True):
    """Done, and not well; nothing of it runs any more.

    ``forbidden``: the setting that does not allow a file of this host which it was to read.
    """

    reason: str
    exit_code: int | None = None
    tail: str = ""
    attributes: dict[str, Json] | None = None
    log: Path | None = None
    forbidden: str | None = None


class Party(StrEnum):
    """The party at fault where a machine is not reached; ``jigs/ssh/faults.py`` has the table."""

    MACHINE = "machine"  # it answered, and not as it should, or its record is wrong
    PATH = "path"  # the network between, or a machine that is off: one annealer cannot tell
    OWN = "own host"  # the annealer's: it says nothing about the machine


class Unreachable(msgspec.Struct, frozen=True):
    """The machine does not answer; ``step``: ping, resolve, connect, host key, authenticate or run. Its run may go on.

    ``begun``: whether it may have been started by this order; False only where that is certain. ``party``: never OWN.
    """

    step: str
    reason: str
    begun: bool = True
    party: Party = Party.MACHINE

    @property
    def why(self) -> str:
        """The step, and why it failed."""
        return f"{self.step}: {self.reason}"


class Fenced(msgspec.Struct, frozen=True):
    """The machine has taken an order of this later epoch, or ended the run for one; nothing of ours runs there."""

    epoch: int


class Lost(msgspec.Struct, frozen=True):
    """The run was started, or may have been started, and its end is unknown. It was not started again."""

    reason: str


class Unknown(msgspec.Struct, frozen=True):
    """This host failed while it asked: nothing says whether the run was started, goes on, or has ended. Ask again.

    ``begun``: whether it may have been started; False only where that is certain. ``reaching``: it failed to reach the machine,
    by a fault that the table of faults calls its own.
    """

    reason: str
    begun: bool = True
    reaching: bool = False


class Detached(msgspec.Struct, frozen=True):
    """The annealer stops: the run continues without it, and no decision follows from this."""

    reason: str = "told to stop"


class Boots(msgspec.Struct, frozen=True):
    """The machine must be installed; nothing was ordered from it yet. Only jig ``install`` answers this."""

    wish: Wish


Outcome: TypeAlias = Succeeded | Failed | Unreachable | Fenced | Lost | Unknown | Detached | Boots


class Jig(Protocol):
    """A way to do a role's work; made once for each annealer, used by many threads."""

    @property
    def name(self) -> str:
        """The value of ``jig:`` in a role."""

    @property
    def instant(self) -> bool:
        """Whether it succeeds immediately and touches nothing, so that it needs no thread."""

    @property
    def attaches(self) -> bool:
        """Whether a repeated order, after a take-over, attaches to the run that continues or gives its result.

        If not, a destructive role of this jig is not run again after a take-over: it is in ERROR until a person acts.
        """

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        """Do the order in its time. If ``stop`` is set, the node is not ours any more: leave the run alone.

        An exception counts as Unknown.
        """

    def cancel(self, order: Order) -> Unreachable | Fenced | None:
        """End the runs of the order's noderole and generation on the machine; None if nothing runs any more."""

    def close(self) -> None:
        """Give back connections; runs continue."""


@runtime_checkable
class Checker(Protocol):
    """A jig that knows orders to ``check``; another one never gets any."""

    @property
    def checks(self) -> bool:
        """Whether it does."""


@runtime_checkable
class Configurable(Protocol):
    """A jig that takes over other settings while it is used; another one keeps those that it was made with."""

    def configure(self, settings: Settings) -> None:
        """Orders that come from now on are done with these; runs under way are left alone. Must not raise."""


def bounded(outcome: Outcome, mask: Mask = Mask()) -> Outcome:  # noqa: B008
    """The same with texts that can be stored: a reason and a tail of bounded length, without secrets or lone surrogates."""
    changed = {}
    for field, most in (("reason", REASON_CHARACTERS), ("tail", TAIL_BYTES)):
        text = getattr(outcome, field, None)
        if isinstance(text, str):
            text = mask.text(text)
            whole = text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"
            changed[field] = whole.encode("utf-8", "replace").decode()
    return replace(outcome, **changed)


def installed(settings: Settings) -> extensions.Found[Jig]:
    """Every jig that the entry points ``nodepool_ocb.jigs`` name, by name; a jig that breaks the contract is left out."""

    def make(kind: Callable[[Settings], Jig]) -> Jig:
        return kind(settings)

    return extensions.load("jig", "nodepool_ocb.jigs", make, Jig, parts=(Checker, Configurable))
