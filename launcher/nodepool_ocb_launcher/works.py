"""The works on nodes, each on a worker of its provider as soon as it is due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.work import NodeWork

LAUNCHES: Final = "launch"
DELETIONS: Final = "delete"
RENEWALS: Final = "renew"  # slots of machines


class NodeWorks:
    """The works, by the id of the node. Call it on the turn thread, except ``sentence``."""

    def __init__(self, context: LauncherContext, wake: Callable[[], None]) -> None:
        self._context, self._wake = context, wake
        self._works: dict[str, NodeWork] = {}
        self._pools: dict[tuple[str, str], WorkerPool] = {}  # (provider, kind of work)

    def get(self, id: str) -> NodeWork | None:
        """The work on a node."""
        return self._works.get(id)

    def add(self, work: NodeWork) -> None:
        """Begin a work at the next ``start``."""
        self._works[work.id] = work

    @property
    def busy(self) -> bool:
        """Whether a worker is at work."""
        return any(pool.busy for pool in self._pools.values())

    def begin_anew(self) -> None:
        """A new session: works of the former one end, and those of this one get another ``halt``."""
        self._context.halt.set()
        self._context.halt = threading.Event()
        self.reap()

    def reap(self) -> None:
        """Forget the works that are over."""
        running = self._running()
        for id, work in list(self._works.items()):
            if id in running:
                continue
            if work.halted and not work.over:
                work.release()
            if work.over:
                del self._works[id]

    def start(self) -> float:
        """Start each work that is due and finds a free worker; gives the seconds until the next is due."""
        now, running, wait = time.monotonic(), self._running(), float("inf")
        for id, work in self._works.items():
            if id in running:
                continue
            if work.due > now:
                wait = min(wait, work.due - now)
            else:
                kind = DELETIONS if work.deleting else LAUNCHES
                # without a free worker the end of another work wakes the turn
                self._workers(work.provider, kind).start(id, work.run)
        return wait

    def renew(self, provider: str, machine: Hashable, work: Callable[[], None]) -> bool:
        """Begin to renew slots of a machine; False if that is under way or no worker is free: then an end wakes the turn."""
        return self._workers(provider, RENEWALS).start(machine, work)

    def release_idle(self) -> None:
        """Leave the works that wait to other launchers."""
        running = self._running()
        for id, work in list(self._works.items()):
            if id not in running:
                work.release()
                del self._works[id]

    def changed(self, fqdns: Iterable[str]) -> None:
        """Something happened below these nodes of /ocb."""
        found = set(fqdns)
        for work in self._works.values():
            if work.fqdn in found:
                work.changed()

    def resize(self) -> None:
        """Take over the configured numbers of workers."""
        for (_, kind), pool in self._pools.items():
            pool.size = self._size(kind)

    def wait(self, until: float) -> None:
        """Wait until all workers are free, or for a time of the monotonic clock."""
        for pool in self._pools.values():
            pool.wait(max(0.0, until - time.monotonic()))

    def sentence(self) -> str:
        """The works in one sentence; on any thread."""
        works = list(self._works.values())
        deleting = sum(1 for work in works if work.deleting)
        parts = [(len(works) - deleting, "launching"), (deleting, "deleting")]
        return "; ".join(f"{verb} {count} {'node' if count == 1 else 'nodes'}" for count, verb in parts if count)

    def _running(self) -> set[object]:
        return {id for pool in self._pools.values() for id in pool.busy}

    def _workers(self, provider: str, kind: str) -> WorkerPool:
        key = provider, kind
        if key not in self._pools:
            self._pools[key] = WorkerPool(kind, self._size(kind), self._wake)
        return self._pools[key]

    def _size(self, kind: str) -> int:
        settings = self._context.settings.launcher
        return settings.delete_workers if kind == DELETIONS else settings.launch_workers
