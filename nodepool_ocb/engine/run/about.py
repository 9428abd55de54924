"""The effect of a death or a stop of the annealer in each phase of a run, in words for docs/runs.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine.run.words import RunPhase


class About(msgspec.Struct, frozen=True):
    """Facts about a phase that no rule states."""

    stands: str  # its traces in ZooKeeper and on the machine
    killed: str  # the consequence if the annealer dies there
    frozen: str  # the consequence if it is frozen for longer than its session lives, and thawed
    ignored: str = "Nothing."  # the reason why a cancel or a drain without a rule changes nothing


_VOID: Final = "As after kill -9 once the session's time is over. When the annealer goes on, it gets SESSION_LOST"
_BLIND: Final = (
    "If its jig cannot find the run again, the noderole runs again, or is in ERROR if its role is destructive."
)
ABOUT: Final[Mapping[RunPhase, About]] = {
    RunPhase.CLAIMING: About(
        "The claim and the noderole in TRANSITION are written, or nothing is. Nothing was ordered.",
        "A claim that was written goes with the session; another annealer takes the noderole over and starts it. If the jig"
        " cannot find a run again, a destructive role is in ERROR instead, so that a person looks.",
        f"{_VOID}, and has nothing to leave alone.",
        "It is remembered. As soon as the claim is written, a cancelled run is ended on the machine; an annealer that"
        " drains gives the node back instead.",
    ),
    RunPhase.RUNNING: About(
        "The claim stands, the noderole is in TRANSITION, and its script may go on on the machine.",
        "The script goes on. When the session's time is over another annealer takes the noderole over under a higher epoch,"
        f" and attaches to the script or gets its result: it is not started again. {_BLIND}",
        f"{_VOID}; its late orders and writes are refused, by the machine for its epoch and by ZooKeeper for its fence.",
    ),
    RunPhase.BOOTING: About(
        "The claim stands, the noderole is in TRANSITION, and the record of the installation has its newest step.",
        "The installation goes on on the machine. Another annealer takes the noderole over under a higher epoch, and continues"
        " at the step in the record.",
        f"{_VOID}; its late writes are refused for its fence, and a late order to boot is refused by the machine.",
    ),
    RunPhase.CANCELLING: About(
        "As RUNNING, and the noderole has its cancel_reason.",
        "The noderole keeps its cancel_reason: the annealer that takes it over ends the script on the machine.",
        f"{_VOID}; the machine refuses its order where another annealer gave one of a higher epoch.",
        "Nothing: it is being cancelled.",
    ),
    RunPhase.REPORTING: About(
        "The transaction of the outcome is under way. The machine keeps its result.",
        "The transaction is written whole, and the node is free; or not at all, and the annealer that takes the noderole over"
        f" asks the machine, which gives the same result. {_BLIND}",
        f"{_VOID}; a transaction that it sends late is refused for its fence.",
        "Nothing yet. If the outcome is refused, the phase is WAITING, and there it counts.",
    ),
    RunPhase.WAITING: About(
        "The claim stands, and the noderole is in TRANSITION. The outcome is here and on the machine.",
        f"The annealer that takes the noderole over asks the machine, which gives the same result. {_BLIND}",
        f"{_VOID}, and forgets the outcome: the machine still has it.",
        "Nothing here: for any outcome, its noderole is written as failed for that reason.",
    ),
    RunPhase.RELEASING: About(
        "The transaction that gives the node back is under way. A run that was begun goes on.",
        "As if the node had been given back: the claim goes, now or with the session, and another annealer attaches.",
        f"{_VOID}, and has nothing to do.",
        "Nothing: the annealer that takes the noderole over does it.",
    ),
    RunPhase.OVER: About("The noderole and the node are as the last transaction left them.", "Nothing.", "Nothing."),
}
