"""Whether machines are there: idle ones are asked on a schedule, by the annealer that ranks first for the node.

A node that works needs no probe: the connection of its jig is one. It takes two failures in a row to call a machine dead,
one success to call it alive. What this host lacks to ask (a private key, open files) says nothing about a machine. Nodes
that are virtual, not available, or have no address are left as they are.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

import msgspec

from nodepool_ocb import metrics
from nodepool_ocb.aliveness import died, pinned, revived
from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.probe import Alive, NoKey, Prober, Unreachable
from nodepool_ocb.model import Change, Node
from nodepool_ocb.store import paths
from nodepool_ocb.store.session import Session
from nodepool_ocb.world import NodeView, World
from nodepool_ocb_annealer.agenda import Agenda
from nodepool_ocb_annealer.ranking import Ranking

log = logging.getLogger(__name__)

PROBES_AT_ONCE: Final = 8
CONFIRM_SECONDS: Final = 1.0  # from the first failure to the second probe
NOT_ASKED: Final = "it was not asked:"
IN_A_ROW_SECONDS: Final = 60.0  # a probe may take half of that to fail


class Unfit(msgspec.Struct, frozen=True):
    """This host could not ask; that says nothing about the machine."""

    reason: str


class Site(Protocol):
    """What probing needs of the annealer."""

    world: World
    agenda: Agenda
    ranking: Ranking
    settings: AnnealerSettings
    session: Session
    prober: Prober | None
    identity: str

    def post(self, call: Callable[[], None]) -> None: ...
    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None: ...


class Probing:
    """The schedule of probes; everything but the probe itself is on the turn thread."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads = ThreadPoolExecutor(max_workers=PROBES_AT_ONCE, thread_name_prefix="probe")
        self._failures: dict[str, tuple[int, float]] = {}  # how many in a row, and when the newest was (monotonic)
        self._seen: dict[str, str] = {}  # the newest reason of each machine that does not answer
        self._told: dict[str, str] = {}  # the newest reason that we wrote of it
        self._under_way: set[str] = set()
        self._unfit: str | None = None  # why this host cannot ask, as it was said last

    def plan(self, nodes: Iterable[str]) -> None:
        """Make an appointment with each of these nodes, if it is ours to ask and has none; the dead ones soon."""
        site, now = self._site, time.monotonic()
        for fqdn in nodes:
            view = site.world.nodes.get(fqdn)
            node = view.record if view else None
            if view is None or node is None or fqdn in self._under_way or not _probed(view):
                continue
            if site.ranking.of(fqdn) != 0:
                continue
            if node.alive:
                wait = site.settings.probe_seconds * random.uniform(0.5, 1.0)
            else:
                wait = site.settings.dead_probe_seconds * random.uniform(0.0, 0.2)
            site.agenda.at(now + wait, ("probe", fqdn))

    def probe(self, fqdn: str) -> None:
        """The appointment: ask now, unless somebody works on the node."""
        site = self._site
        view = site.world.nodes.get(fqdn)
        if site.prober is None or view is None or view.record is None or not _probed(view):
            return
        if site.ranking.of(fqdn) != 0 or fqdn in self._under_way:
            return
        if view.claim is not None:
            self._next(view)
            return
        self._under_way.add(fqdn)
        self._threads.submit(self._ask, site.prober, fqdn, view.record)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, prober: Prober, fqdn: str, node: Node) -> None:
        answer: Alive | Unreachable | Unfit
        try:
            answer = prober.probe(fqdn, node)
        except (NoKey, OSError) as lacking:
            answer = Unfit(str(lacking))
        except Exception as error:
            log.exception("the probe of %s raised", fqdn)
            answer = Unfit(f"{type(error).__name__}: {error}")
        self._site.post(lambda: self._answered(fqdn, node, answer))

    def _answered(self, fqdn: str, asked: Node, answer: Alive | Unreachable | Unfit) -> None:
        self._under_way.discard(fqdn)
        view = self._site.world.nodes.get(fqdn)
        if view is None or view.record is None or not _probed(view):
            return
        node = view.record
        if _reached_by(node) != _reached_by(asked):
            self.probe(fqdn)  # that was another machine, or another way to it
            return
        if isinstance(answer, Unfit):
            self._say_unfit(view, node, answer.reason)
            self._next(view)
            return
        self._unfit = None
        if isinstance(answer, Alive):
            metrics.PROBES.labels("alive").inc()
            for known in (self._failures, self._seen, self._told):
                known.pop(fqdn, None)
            if not (node.alive or node.dying):
                log.info("%s is alive", fqdn)
                keys = [answer.host_key] if answer.host_key else []
                self._site.send(revived(view, self._site.session.now(), keys), lambda _: None, f"{fqdn} alive")
            elif answer.host_key and not node.host_keys:
                self._site.send(pinned(view, answer.host_key), lambda _: None, f"host key of {fqdn}")
            self._next(view)
            return
        metrics.PROBES.labels("failed").inc()
        metrics.PROBE_FAILURES.labels(answer.step).inc()
        failures = self._failed(fqdn)
        reason = f"{answer.step}: {answer.reason}"
        if node.alive and node.available and failures == 1:
            self._site.agenda.at(time.monotonic() + CONFIRM_SECONDS, ("probe", fqdn))
            return
        if node.available and view.claim is None and self._is_news(view.name, node, answer.step, reason):
            log.warning("%s is not alive: %s", fqdn, reason)
            self._told[fqdn] = reason
            changes = died(view, self._site.session.now(), reason)
            self._site.send(changes, partial(self._written, fqdn), f"{fqdn} not alive")
        self._next(view)

    def _is_news(self, fqdn: str, node: Node, step: str, reason: str) -> bool:
        """Whether the record is to say this reason: a death or another step at once; another reason in the same step when
        it was found twice in a row, for a machine may say something else each time.
        """
        again = self._seen.get(fqdn) == reason
        self._seen[fqdn] = reason
        if node.alive or not (node.reason or "").startswith(f"{step}:"):
            return True
        return again and reason not in (node.reason, self._told.get(fqdn))

    def _say_unfit(self, view: NodeView, node: Node, reason: str) -> None:
        """Once in the log; and in the node, where nothing else says why it is not alive."""
        metrics.PROBES.labels("unknown").inc()
        if reason != self._unfit:
            log.warning("this host cannot ask machines: %s", reason)
            self._unfit = reason
        said = f"{NOT_ASKED} annealer {self._site.identity} cannot ask: {reason}"
        older = node.reason is not None and node.reason.startswith(NOT_ASKED)
        news = node.reason is None or (older and said not in (node.reason, self._told.get(view.name)))
        if news and node.available and not node.alive and view.claim is None:
            self._told[view.name] = said
            changes = died(view, self._site.session.now(), said)
            self._site.send(changes, partial(self._written, view.name), f"{view.name} not asked")

    def _written(self, fqdn: str, refused: OcbError | None) -> None:
        if refused is not None:
            self._told.pop(fqdn, None)

    def _failed(self, fqdn: str) -> int:
        """How many failures in a row this is; one that lies long back is none of them."""
        now = time.monotonic()
        before, when = self._failures.get(fqdn, (0, now))
        recent = now - when < IN_A_ROW_SECONDS
        self._failures[fqdn] = (before + 1 if recent else 1, now)
        return self._failures[fqdn][0]

    def _next(self, view: NodeView) -> None:
        """The next appointment: in a minute or so, or soon where the machine is dead."""
        assert view.record is not None, "only nodes that have a record are probed"
        settings = self._site.settings
        alive = view.record.alive
        wait = settings.probe_seconds if alive else settings.dead_probe_seconds
        self._site.agenda.at(time.monotonic() + wait * random.uniform(0.9, 1.1), ("probe", view.name))


def _reached_by(node: Node) -> tuple[object, ...]:
    return node.addresses, node.user, node.host_keys


def _probed(view: NodeView) -> bool:
    node = view.record
    if node is None or paths.node(view.name) in view.world.unreadable:
        return False  # what it is now is not known, and it cannot be written
    return node.available and not node.virtual and bool(node.addresses)
