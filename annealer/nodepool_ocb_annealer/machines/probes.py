"""Probes of machines: idle ones are asked on a schedule, by the annealer that ranks first for the node.

A node that works needs no probe: the connection of its jig is one. A machine is dead after two failures in a row, if
another annealer fails at it, too (judging). It is alive after one success, which follows growing pauses if runs do not agree
(relapsing). Nodes that are virtual, not available, or have no address are left as they are. A node with a person's mark is
asked when the time of the mark is up.

The first logins after a start are paced (pacing): thousands of machines are not asked at once.

While this annealer itself has a fault, it asks two machines now and then, over new connections: the one at which it
failed, and another. A missing answer does not count then.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.engine import maintenance, marks
from nodepool_ocb.engine.liveness import died, pinned, revived
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.errors import OcbError, reason_of
from nodepool_ocb.jigs.ssh.faults import NO_THREAD
from nodepool_ocb.jigs.ssh.probe import Alive, NoKey, OwnFault, Prober, Unreachable
from nodepool_ocb.model.records import Node
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.judging import Judging, probed
from nodepool_ocb_annealer.machines.pacing import FirstLogins
from nodepool_ocb_annealer.machines.relapses import Relapses
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

PROBES_AT_ONCE: Final = 8
CONFIRM_SECONDS: Final = 1.0  # from the first failure to the second probe
IN_A_ROW_SECONDS: Final = (
    60.0  # from one failure to the request of the next; the wait and the duration of that one are not counted
)


class Unfit(msgspec.Struct, frozen=True):
    """This host could not ask; that says nothing about the machine. ``lacking``: it could not ask any.

    ``certain``: the table of faults says that it is this host's own.
    """

    reason: str
    lacking: bool
    certain: bool = False


class Probing:
    """The schedule of probes; everything but the probe itself is on the turn thread."""

    def __init__(self, context: AnnealerContext, judging: Judging) -> None:
        self._context, self._judging = context, judging
        self._workers = WorkerQueue("probe", PROBES_AT_ONCE, context.post)
        self._failures: dict[str, tuple[int, float]] = {}  # how many in a row, and when the newest was (monotonic)
        self._seen: dict[str, str] = {}  # the newest reason of each machine that does not answer
        self._reasons: dict[str, str] = {}  # the newest reason that we wrote of it
        self._under_way: dict[str, float] = {}  # since when it is to be asked (monotonic): others may go before
        self._relapses = Relapses()
        self._first = FirstLogins()

    def look_at_host(self) -> None:
        """Before other work: if there is a machine to ask, find missing parts of this host at once."""
        context = self._context
        if context.prober is not None and any(map(self._probed, context.world.nodes.values())):
            self._judging.standing.lacks(context.prober.lacks())

    def plan(self, nodes: Iterable[str]) -> None:
        """Set a timer for each of these nodes, if it is ours to ask; suspected and dead ones soon."""
        context, now = self._context, time.monotonic()
        for fqdn in nodes:
            view = context.world.nodes.get(fqdn)
            self._judging.heed(fqdn, view)
            if view is None or fqdn in self._under_way or self._held(view) or not self._ours(view):
                continue
            node = view.record
            assert node is not None, "only nodes that have a record are ours"
            if self._judging.asked(node):
                by = node.suspicion.by if node.suspicion else None
                wait = context.ranking.of(fqdn, without=by) * context.settings.dead_probe_seconds
            elif node.alive and not node.suspicion:
                wait = context.settings.probe_seconds * random.uniform(0.5, 1.0)
            else:
                wait = max(context.settings.dead_probe_seconds * random.uniform(0.0, 0.2), self._pause(fqdn, node))
            context.timers.at(now + wait, Timer(TimerKind.PROBE, fqdn))

    def probe(self, fqdn: str) -> None:
        """The timer: ask now, unless an annealer works on the node, or too many first logins are due."""
        view, now = self._context.world.nodes.get(fqdn), time.monotonic()
        if view is None:
            self._first.forget(fqdn)
        if view is None or fqdn in self._under_way or self._held(view) or not self._ours(view):
            return
        if view.claim is not None or (view.record is not None and self._pause(fqdn, view.record)):
            self._next(view)
        elif wait := self._first_wait(view, now):
            self._context.timers.at(now + wait, Timer(TimerKind.PROBE, fqdn))
        else:
            self._submit(view)

    def _first_wait(self, view: NodeView, now: float) -> float:
        """Seconds until its first login may begin; none where another annealer waits for our answer."""
        asked = view.record is not None and self._judging.asked(view.record)
        return 0.0 if asked else self._first.wait_seconds(view.name, now)

    def trial(self) -> None:
        """While something is wrong with us: ask any machine, rather one that others call alive."""
        context = self._context
        if context.prober is None or self._judging.standing.trouble is None:
            return
        context.timers.at(time.monotonic() + context.settings.dead_probe_seconds, Timer(TimerKind.TRIAL))
        context.prober.forget_keys()
        asked = {
            view.name: view
            for view in context.world.nodes.values()
            if self._probed(view) and view.name not in self._under_way
        }
        alive = [view for view in asked.values() if view.record is not None and view.record.alive]
        if failing := asked.pop(self._judging.standing.failing or "", None):
            self._submit(failing, anew=True)
        others = [view for view in alive if view is not failing] or list(asked.values())
        if others:
            self._submit(random.choice(others), anew=True)
        elif failing is None:
            self._judging.standing.lacks(context.prober.lacks())

    def close(self) -> None:
        self._workers.close()

    def _probed(self, view: NodeView) -> bool:
        return probed(view, self._context.session.now())

    def _held(self, view: NodeView) -> bool:
        """Whether a mark holds, or it is held; then it is looked at when the time of that is up."""
        node, now = view.record, self._context.session.now()
        if node is None or not (marks.holds(node, now) or maintenance.held(node, now)):
            return False
        ends = [each.until for each in (node.mark, node.hold) if each is not None and each.until is not None]
        for until in (each for each in ends if each > now):
            self._context.timers.at(time.monotonic() + until - now, Timer(TimerKind.PROBE, view.name))
        return True

    def _ours(self, view: NodeView) -> bool:
        """Whether we must ask, as the first in rank, or because another annealer has a suspicion."""
        context = self._context
        if context.prober is None or self._judging.standing.trouble or not self._probed(view):
            return False
        return context.ranking.of(view.name) == 0 or (view.record is not None and self._judging.asked(view.record))

    def _submit(self, view: NodeView, anew: bool = False) -> None:
        assert self._context.prober is not None, "a probe needs a prober"
        assert view.record is not None, "only nodes that have a record are probed"
        self._under_way[view.name] = time.monotonic()
        ask = partial(_ask, self._context.prober, view.name, view.record, anew)
        answered = partial(self._answered, view.name, view.record)
        if not self._workers.ask(ask, answered):
            answered(Unfit(f"thread: {NO_THREAD}", lacking=False, certain=True))

    def _answered(self, fqdn: str, asked: Node, answer: Alive | Unreachable | Unfit) -> None:
        began = self._under_way.pop(fqdn)
        judging = self._judging
        if isinstance(answer, Unfit):
            metrics.PROBES.labels("unknown").inc()
            judging.unfit(fqdn, answer.reason, answer.lacking, answer.certain)
        view = self._context.world.nodes.get(fqdn)
        if view is None or view.record is None or not self._probed(view):
            return
        if _reached_by(view.record) != _reached_by(asked):
            self.probe(fqdn)  # that was another machine, or another way to it
            return
        if isinstance(answer, Alive):
            self._alive(view, view.record, answer)
        elif isinstance(answer, Unreachable):
            metrics.PROBES.labels("failed").inc()
            metrics.PROBE_FAILURES.labels(answer.step).inc()
            if judging.standing.trouble:
                judging.standing.unreached()
            elif self._again(view, view.record, began):
                return
            else:
                self._failed(view, view.record, answer)
        self._next(view)

    def _alive(self, view: NodeView, node: Node, answer: Alive) -> None:
        metrics.PROBES.labels("alive").inc()
        context, fqdn = self._context, view.name
        for known in (self._failures, self._seen, self._reasons):
            known.pop(fqdn, None)
        self._judging.answered(view, answer.fresh)
        if not (node.alive or node.dying):
            log.info("%s is alive", fqdn)
            keys, now = [answer.host_key] if answer.host_key else [], context.session.now()
            self._relapses.revived(fqdn, node, now)
            context.send(revived(view, now, keys), lambda _: None, f"{fqdn} alive")
        elif answer.host_key and not node.host_keys and node.suspicion is None:
            context.send(pinned(view, answer.host_key), lambda _: None, f"host key of {fqdn}")

    def _again(self, view: NodeView, node: Node, began: float) -> bool:
        """Whether it is asked once more first, soon: no other annealer has failed at it."""
        failures = self._count(view.name, began)
        again = node.alive and failures == 1 and not self._judging.asked(node)
        if again:
            self._context.timers.at(time.monotonic() + CONFIRM_SECONDS, Timer(TimerKind.PROBE, view.name))
        return again

    def _failed(self, view: NodeView, node: Node, answer: Unreachable) -> None:
        context, reason = self._context, answer.why
        if view.claim is not None:
            return
        if node.alive and not self._judging.agreed(node, answer.party):
            self._judging.suspect(view, reason)
            return
        self._judging.refused(view, reason)
        if self._judging.own_fault(view, reason) and node.alive:
            log.warning("%s does not take the key; others are asked before it is called dead: %s", view.name, reason)
            context.timers.at(time.monotonic() + context.settings.dead_probe_seconds, Timer(TimerKind.PROBE, view.name))
        elif self._is_news(view.name, node, reason):
            log.warning("%s is not alive: %s", view.name, reason)
            self._reasons[view.name] = reason
            changes = died(view, context.session.now(), reason)
            context.send(changes, partial(self._written, view.name), f"{view.name} not alive")

    def _is_news(self, fqdn: str, node: Node, reason: str) -> bool:
        """Whether to write this reason into the record. A death or another step is written at once; another reason in the same
        step only after two equal results, because a machine may answer differently each time.
        """
        again = self._seen.get(fqdn) == reason
        self._seen[fqdn] = reason
        if node.alive or not (node.reason or "").startswith(reason.partition(":")[0] + ":"):
            return True
        return again and reason not in (node.reason, self._reasons.get(fqdn))

    def _written(self, fqdn: str, refused: OcbError | None) -> None:
        if refused is not None:
            self._reasons.pop(fqdn, None)

    def _count(self, fqdn: str, began: float) -> int:
        """How many failures in a row this is, which was asked for at ``began``; one that lay long back then is none."""
        before, when = self._failures.get(fqdn, (0, began))
        recent = began - when < IN_A_ROW_SECONDS
        self._failures[fqdn] = before + 1 if recent else 1, time.monotonic()
        return self._failures[fqdn][0]

    def _next(self, view: NodeView) -> None:
        """The next timer: in a minute or so, or soon where the machine is dead, or may be."""
        assert view.record is not None, "only nodes that have a record are probed"
        settings = self._context.settings
        well = view.record.alive and view.record.suspicion is None
        wait = settings.probe_seconds if well else settings.dead_probe_seconds
        wait = max(wait, self._pause(view.name, view.record))
        self._context.timers.at(time.monotonic() + wait * random.uniform(0.9, 1.1), Timer(TimerKind.PROBE, view.name))

    def _pause(self, fqdn: str, node: Node) -> float:
        """For how long it is left alone, as it answers probes and runs find it dead."""
        context = self._context
        return self._relapses.wait_seconds(fqdn, node, context.session.now(), context.settings.dead_probe_seconds)


def _ask(prober: Prober, fqdn: str, node: Node, anew: bool) -> Alive | Unreachable | Unfit:
    """In a worker."""
    try:
        return prober.probe(fqdn, node, anew)
    except NoKey as lacking:
        return Unfit(str(lacking), lacking=True)
    except OwnFault as fault:
        return Unfit(str(fault), lacking=False, certain=True)
    except OSError as failed:
        return Unfit(str(failed), lacking=False)
    except Exception as error:
        log.exception("the probe of %s raised", fqdn)
        return Unfit(reason_of(error), lacking=False)


def _reached_by(node: Node) -> tuple[object, ...]:
    return node.addresses, node.user, node.host_keys
