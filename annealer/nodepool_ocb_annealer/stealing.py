"""Work at nodes that other annealers go first at: the turn of this one, and the instant work that waits until it may be taken.

The first in rank does instant work soon, if it is able to. Both would send it, and one of both in vain. So a rank waits for
longer than transactions take now, and takes few at once. Where those before it are late it takes more, and the rest stands
in a line that moves as those taken end. Use it on the turn thread. Times are seconds on the monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine.inline_runs import InlineBatch
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import NotFound
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.runs.slots import SlotPool
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

STEALS_AT_ONCE: Final = 4
LATE_AT_ONCE: Final = 100  # a quarter of MOST_IN_FLIGHT: of an annealer that seems to begin nothing
LAGS: Final = 3.0  # that each rank waits at least
LAG_SHARE: Final = 8  # one part in so many of the remembered lag is that of the newest transaction
LAG_HALVES_SECONDS: Final = 2.0  # after which half of the remembered lag is forgotten
LONGEST_LAG_SECONDS: Final = 2.0  # of a transaction: one whose answer was lost in an outage says nothing about the load
LATE_TURNS: Final = 10  # after so many turns of its own, an annealer that could not begin is helped in any case


class Stealing:
    """The nodes at which this annealer is not the first. ``inline``: node → its batch of instant work, under way here."""

    def __init__(self, context: AnnealerContext, slots: SlotPool, inline: Mapping[str, InlineBatch]) -> None:
        self._context, self._slots, self._inline = context, slots, inline
        self._stolen: set[str] = set()  # those of ``inline`` that another annealer goes before us at
        self._waiting: OrderedDict[str, None] = OrderedDict()  # nodes that are late, in the order of their coming
        self._ready: dict[str, tuple[float, int]] = {}  # since when a node may have work, and its epoch then
        self._lag_seconds = (
            0.0  # from the sending of such a transaction to the handling of its answer, at ``_answered``
        )
        self._answered = 0.0

    def our_turn(self, view: NodeView, now: float) -> bool:
        """Whether all annealers before this one have had their time, and this one may help.

        That is asked before the search for work: most nodes are left to others, and cost no more than this.
        """
        fqdn = view.name
        rank = self._context.ranking.of(fqdn)
        if rank == 0:
            return True
        if not view.ready:
            self.forget(fqdn)
            return False
        since, epoch = self._ready.get(fqdn, (now, view.epoch))
        if epoch != view.epoch:  # it was claimed meanwhile: another annealer goes on there
            since = now
        self._ready[fqdn] = since, view.epoch
        due = since + rank * self._turn_seconds(view, now)
        if due > now:
            self._look_again(fqdn, min(due, now + LAG_HALVES_SECONDS))
            return False
        return self._open(fqdn, now) or not self._all_instant(view) or self._wait(fqdn, now)

    def may_take(self, vertex: Vertex, now: float) -> bool:
        """Whether this work may begin at a node where it is our turn; instant work only beside little work of our own."""
        fqdn = vertex.node.name
        if self._context.ranking.of(fqdn) == 0 or not self._instant(vertex):
            return True
        return self._open(fqdn, now) or self._wait(fqdn, now)

    def freed(self, now: float) -> str | None:
        """The first that waits, taken from the line, where it may be taken now."""
        fqdn = next(iter(self._waiting), None)
        if fqdn is None or not self._open(fqdn, now):
            return None
        del self._waiting[fqdn]
        return fqdn

    def forget(self, fqdn: str) -> None:
        """It has no work for us: its time counts anew when it has some."""
        self._ready.pop(fqdn, None)
        self._waiting.pop(fqdn, None)

    def sent(self, fqdn: str) -> None:
        """Instant work of the node was sent."""
        if self._context.ranking.of(fqdn):
            self._stolen.add(fqdn)

    def answered(self, fqdn: str, took_seconds: float, now: float) -> None:
        """Instant work of the node is written, or refused."""
        self._stolen.discard(fqdn)
        lag = self._lag(now)
        self._lag_seconds = lag + (min(took_seconds, LONGEST_LAG_SECONDS) - lag) / LAG_SHARE
        self._answered = now

    def void(self) -> None:
        """The session is over: all times count anew."""
        self._stolen.clear()
        self._waiting.clear()
        self._ready.clear()
        self._lag_seconds = 0.0

    # -- times --

    def _lag(self, now: float) -> float:
        """The remembered lag, with what is forgotten of it by now."""
        return float(self._lag_seconds * 0.5 ** ((now - self._answered) / LAG_HALVES_SECONDS))

    def _patience_seconds(self, now: float) -> float:
        """The time of each rank with instant work: where transactions take long now, those of the others do, too."""
        return max(self._context.settings.steal_delay_seconds, LAGS * self._lag(now))

    def _turn_seconds(self, view: NodeView, now: float) -> float:
        """The time of each rank at this node; work on machines is worth a transaction in vain."""
        delay, patience = self._context.settings.steal_delay_seconds, self._patience_seconds(now)
        return patience if patience > delay and self._all_instant(view) else delay

    def _late_at(self, fqdn: str, now: float) -> float:
        """When those before us were to have begun in any case."""
        return self._ready.get(fqdn, (now, 0))[0] + LATE_TURNS * self._patience_seconds(now)

    # -- the line --

    def _open(self, fqdn: str, now: float) -> bool:
        """Whether instant work of the node may be taken beside that under way."""
        taken = len(self._stolen)
        if taken < STEALS_AT_ONCE and len(self._inline) == taken:
            return True
        return taken < LATE_AT_ONCE and self._late_at(fqdn, now) <= now

    def _wait(self, fqdn: str, now: float) -> bool:
        """Look again later, and put a node that is late in the line; gives False. The line may lose a node that cannot begin."""
        late, patience = self._late_at(fqdn, now), self._patience_seconds(now)
        if late > now:
            self._look_again(fqdn, min(late, now + patience))
        else:
            self._waiting.setdefault(fqdn)
            self._look_again(fqdn, now + LATE_TURNS * patience)
        return False

    def _look_again(self, fqdn: str, when: float) -> None:
        self._context.timers.at(when, Timer(TimerKind.CONSIDER, fqdn))

    # -- the work --

    def _all_instant(self, view: NodeView) -> bool:
        return all(map(self._instant, view.ready))

    def _instant(self, vertex: Vertex) -> bool:
        """Whether it needs a transaction and nothing else, as far as its role is known."""
        try:
            return self._slots.instant(vertex)
        except NotFound:
            return False
