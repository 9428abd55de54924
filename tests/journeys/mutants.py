"""An annealer without one of its guards, in the bad luck that it is for: python mutants.py MUTANT MOMENT ROLE ...

The bad luck (with BAD_LUCK in the environment): just before the MOMENT at which it would act on ROLE the process stops
itself (SIGSTOP), once, and acts when it is continued, whatever happened meanwhile; at the moment "answer" its host fails
instead, and "deaf" lasts: no event of ROLE reaches it. With MUTANT "none" every guard is in place, and nothing may come of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.engine import claim, noderole, structure
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.engine.world import World
from nodepool_ocb.jigs import script
from nodepool_ocb.jigs.jig import Failed, Order, Outcome
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.conversation import Conversation
from nodepool_ocb.jigs.ssh.link import Broken
from nodepool_ocb.jigs.ssh.protocol import Frame
from nodepool_ocb.model.records import Change, Check, Delete, NodeRole, Set, Structure
from nodepool_ocb.store.client import transaction
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb_annealer import settling
from nodepool_ocb_annealer.machines import judging
from nodepool_ocb_annealer.main import main
from nodepool_ocb_annealer.runs import running
from nodepool_ocb_annealer.runs.attempts import SlotAnswer

FENCE = "/fence"
COMPARISON = 'if [ -n "$seen" ] && [ "$epoch" -lt "$seen" ]; then'


# -- moments --


def before_the_claim(role: str) -> None:
    """The claim is decided, and not sent."""
    decide = claim.claiming
    stop = _Once()

    def claiming(world: Any, hold: claim.Grant, *, recorded: bool = False) -> list[Change]:
        changes = decide(world, hold, recorded=recorded)
        if hold.vertex.role == role:
            stop.here()
        return changes

    claim.claiming = claiming


def before_the_order(role: str) -> None:
    """The node is claimed, and the machine has no order yet; then the order cannot be called back."""
    give = script.ScriptJig.run
    stop = _Once()

    def run(jig: script.ScriptJig, order: Order, lost: threading.Event) -> Outcome:
        if order.role == role and stop.here():
            lost = threading.Event()
        return give(jig, order, lost)

    script.ScriptJig.run = run  # type: ignore[method-assign]


def after_the_order(role: str) -> None:
    """The script has begun, as the file BAD_LUCK says, and then this host fails at it."""
    follow = Conversation._follow
    fault, begun = _Once(), Path(os.environ["BAD_LUCK"])

    def fails(conversation: Conversation) -> None:
        follow(conversation)
        if conversation._order.role == role and begun.exists() and fault.now():
            raise SystemExit("no room at all")  # what no layer below expects

    Conversation._follow = fails  # type: ignore[method-assign]


def deaf(role: str) -> None:
    """The events of its noderoles are lost."""
    hear = Cache._event

    def event(cache: Cache, kind: str, path: str) -> None:
        if not path.endswith(f"/noderoles/{role}"):
            hear(cache, kind, path)

    Cache._event = event  # type: ignore[method-assign]


class _Once:
    def __init__(self) -> None:
        self._done = "BAD_LUCK" not in os.environ

    def now(self) -> bool:
        """The first time, if there is bad luck."""
        first, self._done = not self._done, True
        return first

    def here(self) -> bool:
        """Stop the process until it is continued; tells whether it was."""
        first = self.now()
        if first:
            os.kill(os.getpid(), signal.SIGSTOP)
        return first


# -- guards taken away --


def without_fence() -> None:
    """A claim raises no epoch."""

    def unfenced(decide: Callable[..., list[Change]]) -> Callable[..., list[Change]]:
        return lambda *a, **k: [change for change in decide(*a, **k) if not change.path.endswith(FENCE)]

    def same_epoch(hold: claim.Grant) -> claim.Grant:
        epoch = hold.vertex.node.fence
        return replace(hold, epoch=epoch, fence=epoch, record=replace(hold.record, epoch=epoch))

    take, take_next = claim.take, claim.take_next
    claim.take = lambda *a, **k: same_epoch(take(*a, **k))
    claim.take_next = lambda *a, **k: same_epoch(take_next(*a, **k))
    for name in ("claiming", "finishing", "passing_on", "releasing", "giving_back"):
        setattr(claim, name, unfenced(getattr(claim, name)))


def without_versions() -> None:
    """Whatever version is there is good enough."""
    pack = transaction.pack

    def lenient(changes: list[Change], *others: Any) -> Any:
        return pack([_any_version(change) for change in changes], *others)

    transaction.pack = lenient  # type: ignore[assignment]


def _any_version(change: Change) -> Change:
    return replace(change, version=-1) if isinstance(change, Check | Set | Delete) else change


def without_epoch_on_the_machine() -> None:
    """The machine takes every order."""
    never_on_the_machine(COMPARISON)


def without_count_of_lost_runs() -> None:
    """A run that was lost is started again by the same order."""
    never_on_the_machine("if again; then")
    answer = Conversation._answer

    def asks_again(conversation: Conversation, heard: Any, held: Callable[[], None]) -> Outcome | None:
        if isinstance(heard, Frame) and heard.word == "GONE":
            raise Broken("it is asked again")
        return answer(conversation, heard, held)

    Conversation._answer = asks_again  # type: ignore[method-assign]


def never_on_the_machine(guard: str) -> None:
    """This line of the runner is never true."""
    installer = protocol.installer

    def careless() -> tuple[str, str]:
        text, digest = installer()
        assert guard in text, "the runner has this guard"
        return text.replace(guard, "if false; then"), digest

    protocol.installer = careless  # type: ignore[assignment]


def without_the_jig_of_the_order() -> None:
    """Who takes over asks the jig that the role has by now."""
    claim.ordered_with = lambda _: None


def without_unknown() -> None:
    """What this host fails at has failed."""
    stored = running.JigRunner._stored

    def known(self: running.JigRunner, answer: SlotAnswer, mask: Mask) -> SlotAnswer:
        if answer.event is RunEvent.FAULT:
            answer = replace(answer, event=RunEvent.ENDED, outcome=Failed(answer.reason))
        return stored(self, answer, mask)

    running.JigRunner._stored = known  # type: ignore[method-assign]


def without_doubt() -> None:
    """A parent that cannot be read is one that is not well."""

    def placed(vertex: noderole.Placed, record: NodeRole, fewer: int, now: float) -> NodeRole:
        return noderole.settled(record, vertex.waiting - fewer, now)

    noderole.placed = settling.placed = placed  # type: ignore[attr-defined]


def without_agreement() -> None:
    """What this annealer does not reach is dead, whatever others say."""
    judging.Judging.agreed = lambda *_: True  # type: ignore[method-assign]


def without_watermark() -> None:
    """What is deleted leaves no numbers; also for a process that is told to delete."""

    def forgetful(_world: World, record: Structure, _transaction: Iterable[Change]) -> Structure:
        return record

    structure._above_all_deleted = forgetful


def without_gates() -> None:
    """A member that ceases to be satisfied raises no gate; also for a process that takes it back."""
    claim.gates_raised = lambda _: iter(())


def without_members_before_gates() -> None:
    """A gate is shown as soon as it is read."""
    Cache._behind = lambda *_: iter(())  # type: ignore[method-assign]


MOMENTS = {
    "none": lambda _: None,
    "claim": before_the_claim,
    "order": before_the_order,
    "answer": after_the_order,
    "deaf": deaf,
}
MUTANTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "no fence": without_fence,
    "no versions": without_versions,
    "no epoch on the machine": without_epoch_on_the_machine,
    "no count of lost runs": without_count_of_lost_runs,
    "no jig of the order": without_the_jig_of_the_order,
    "no unknown": without_unknown,
    "no doubt": without_doubt,
    "no agreement": without_agreement,
    "no watermark": without_watermark,
    "no gates": without_gates,
    "gates before members": without_members_before_gates,
}

if __name__ == "__main__":
    mutant, moment, role = sys.argv[1:4]
    del sys.argv[1:4]
    MUTANTS[mutant]()
    MOMENTS[moment](role)
    main()
