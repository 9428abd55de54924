"""The work of one owner for each provider: leaks, and the provider's quota. It is shared among launchers by the rendezvous hash.

A listing and a quota are read by a thread of their own for each provider. The quota is read once at the beginning, so that the
first launch knows it. Later it is read while a request waits or a node is launched there, and when it is older than
``quota_seconds``. It is told to the other launchers in our registration, which is
written if an amount changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.daemon.backoff import Backoff
from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb.errors import OcbError, Unavailable
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import QuotaReport
from nodepool_ocb.pool.idle.leaks import LeakSightings, MachineMark, leaked, sighted
from nodepool_ocb.pool.membership import Membership
from nodepool_ocb.pool.views import PoolNodeView, PoolView, ProviderQuota
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import Machine, MachineRefused
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.history import pooling
from nodepool_ocb_launcher.context import LauncherContext

log = logging.getLogger(__name__)

WAITING: Final = frozenset({RequestState.REQUESTED, RequestState.PENDING})
LAUNCHING: Final = frozenset({PoolNodeState.INIT, PoolNodeState.BUILDING})
FLEET_SECONDS: Final = 2.0  # between two counts of free machines of the fleet, which need no call
WORKERS: Final = 64  # threads for all providers; each has two at most

Post = Callable[[Callable[[], None]], None]


class ProviderUpkeep:
    """All on the turn thread, but for the calls of providers. ``quotas`` are those that this launcher read."""

    def __init__(self, context: LauncherContext, wake: Callable[[], None], post: Post) -> None:
        self.quotas: dict[str, QuotaReport] = {}
        self.tagged: dict[
            str, dict[str, str]
        ] = {}  # provider → id of a node with an unreadable record → pool of its machine
        self._context, self._post = context, post
        self._threads = WorkerPool("upkeep", WORKERS, wake)
        self._backoff = Backoff()
        self._sightings: dict[str, LeakSightings] = {}

    def look_around(self, view: PoolView) -> float:
        """Begin what is due; gives the seconds until more will be."""
        context = self._context
        membership = Membership(view.members)
        for gone in self.quotas.keys() - context.providers.keys():
            del self.quotas[gone]
        wanted = self._wanted(view)
        for name, calls in context.providers.items():
            if not membership.owns(context.session.id, f"provider/{name}", name):
                self.quotas.pop(name, None)  # its owner tells it
                continue
            if self._backoff.comes(("leaks", name), context.settings.launcher.leak_seconds):
                self._threads.start(("leaks", name), partial(self._list, name, calls))
            pause = FLEET_SECONDS if calls.of_fleet else context.settings.launcher.quota_seconds
            if (name in wanted or name not in self.quotas) and self._backoff.comes(("quota", name), pause):
                self._threads.start(("quota", name), partial(self._ask, name, calls))
        return min(self._backoff.timers(), default=float("inf"))

    def wait(self, seconds: float) -> None:
        """Wait until the threads have ended, or for a time."""
        self._threads.wait(seconds)

    def _wanted(self, view: PoolView) -> set[str]:
        """The providers with a quota that a decision needs: something may be launched there."""
        if any(each.record.state in WAITING for each in view.requests.values()):
            return set(self._context.providers)
        return {each.record.provider or "" for each in view.nodes.values() if each.record.state in LAUNCHING}

    # -- quota --

    def _ask(self, name: str, calls: MachineCalls) -> None:
        answer = calls.quota()
        if isinstance(answer, MachineRefused):
            log.warning("the quota of %s cannot be read: %s", name, answer.reason)
        else:
            self._post(partial(self._heard, name, answer))

    def _heard(self, name: str, answer: ProviderQuota) -> None:
        before = self.quotas.get(name)
        if before is None or (before.limits, before.foreign) != (answer.limits, answer.foreign):
            now = self._context.session.now()
            self.quotas[name] = QuotaReport(limits=answer.limits, foreign=answer.foreign, read=now)

    # -- leaks --

    def _list(self, name: str, calls: MachineCalls) -> None:
        try:
            listed = calls.list()
        except Unavailable as gone:
            log.warning("the machines at %s cannot be listed: %s", name, gone)
            return
        self._post(partial(self._compare, name, calls, listed))

    def _compare(self, name: str, calls: MachineCalls, listed: tuple[Machine, ...]) -> None:
        """Compare a listing with the records, which are read after it. The machine of an unreadable record stays."""
        context = self._context
        nodes, unreadable = context.records()
        stamps = [each.stamp for each in listed if each.stamp is not None and each.stamp.cluster == context.cluster]
        self.tagged[name] = {each.node: each.pool for each in stamps if each.node in unreadable}
        marks = {mark: each for each in listed if (mark := _mark(each)).node not in unreadable}
        found = leaked(marks, nodes.values(), context.cluster, name)
        before = self._sightings.get(name, LeakSightings())
        self._sightings[name] = sighted(before, found, context.session.now())
        for mark in self._sightings[name].confirmed:
            machine = marks[mark]
            self._threads.start(("leak", mark.external_id), partial(self._delete, name, calls, machine))

    def _delete(self, name: str, calls: MachineCalls, machine: Machine) -> None:
        assert machine.stamp is not None
        log.warning("machine %s at %s is in no record: it is deleted", machine.external_id, name)
        refused = calls.delete(machine.external_id, machine.stamp)
        if refused is None:
            metrics.MACHINES_LEAKED.labels(name).inc()
            self._tell(name, machine.external_id, machine.stamp.node)
        else:
            log.warning("machine %s at %s is not deleted yet: %s", machine.external_id, name, refused.reason)

    def _tell(self, provider: str, machine: str, node: str) -> None:
        """In the journal. No transaction is about a leak, so the entry follows the deletion."""
        author = self._context.author()
        with suppress(OcbError):  # the machine is gone, and the log has it
            self._context.journal.commit(
                [], pooling.of_leak(author, provider, machine, node, "no record stands for it")
            )


def _mark(machine: Machine) -> MachineMark:
    stamp = machine.stamp
    if stamp is None:
        return MachineMark(external_id=machine.external_id, cluster=None)
    return MachineMark(
        external_id=machine.external_id,
        cluster=stamp.cluster,
        provider=stamp.provider,
        node=stamp.node,
        key=stamp.key,
    )


def placed(unreadable: Mapping[str, PoolNodeView], tagged: Mapping[str, Mapping[str, str]]) -> dict[str, PoolNodeView]:
    """The nodes with unreadable records, each of an unknown place at the provider that has a machine with its stamp."""
    found = dict(unreadable)
    for provider, pools in tagged.items():
        for id, pool in pools.items():
            if id in found and found[id].record.provider is None:
                record = replace(found[id].record, provider=provider, pool=pool)
                found[id] = replace(found[id], record=record)
    return found


def merged(known: Mapping[str, ProviderQuota], own: Mapping[str, QuotaReport]) -> dict[str, ProviderQuota]:
    """The quotas that other launchers tell, and our own."""
    return dict(known) | {
        name: ProviderQuota(limits=each.limits, foreign=each.foreign, read=each.read) for name, each in own.items()
    }
