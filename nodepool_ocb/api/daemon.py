"""The daemon of a server of the API: its session, the cache that reads come from, tokens, and its registration.

This module alone wires the store. The turn thread refreshes the cache; a read holds the lock of the cache, so no record changes
under it. A reader that needs newer records posts the wish and waits.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.api.feed.ring import EventFeed
from nodepool_ocb.api.feeding import Feeder
from nodepool_ocb.api.listener import Listener
from nodepool_ocb.api.memory.digesting import SHOWN, WorldDigest
from nodepool_ocb.api.memory.tokens import KeptTokens
from nodepool_ocb.api.records import KeptEntries
from nodepool_ocb.config import Settings
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.engine import installing, maintenance
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Denied, Invalid, TimedOut, Unavailable
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.records import Daemon, Record
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.store import clusters, daemons, journal, keyed, logkeys
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.keptrows import KeptRows

log = logging.getLogger(__name__)

MARKS_SECONDS: Final = 600.0  # between two deletions of old marks of calls
LOOK_SECONDS: Final = 0.5  # between two looks whether ZooKeeper answers


class ApiRecords:
    """The records for the routes, as ``records.ServedRecords`` states."""

    def __init__(self, session: Session, settings: Settings, wake: Callable[[], None]) -> None:
        self.session = session
        self.settings = settings
        self.cluster = ""
        self.zxid = 0
        self._wake = wake
        self._cache = Cache(session, World(), wake)
        self._turning = threading.Condition()  # its lock guards the world
        self._wishes = 0  # for newer records
        self._granted = 0  # the wishes that the cache has met
        self._digest = WorldDigest()
        self._restores = 0  # how often the numbers of ZooKeeper went back
        self.world_version: str | None = None
        self._loaded = False
        self.rows = KeptRows()
        self.writes = 0
        self.feed = EventFeed()
        self._feeder = Feeder(session, self.feed, wake)
        self._tokens = KeptTokens(session, self.feed.token_changed)

    @property
    def age_seconds(self) -> float:
        return max(0.0, self.session.silent_seconds)

    @property
    def trusted(self) -> bool:
        return self.session.trusted

    def now(self) -> float:
        """As ``ServedRecords.now`` states."""
        return self.session.now()

    @contextmanager
    def reading(self) -> Iterator[World]:
        """Raises Unavailable before everything was read one time."""
        with self._turning:
            if not self._loaded:
                raise Unavailable("this server has not read the records yet; try again")
            yield self._cache.world

    @contextmanager
    def glimpse(self) -> Iterator[World | None]:
        """As ``ServedRecords.glimpse`` states."""
        if not self._turning.acquire(blocking=False):
            yield None
            return
        try:
            yield self._cache.world if self._loaded else None
        finally:
            self._turning.release()

    def catch_up(self, zxid: int | None, deadline: float) -> None:
        """As ``ServedRecords.catch_up`` states."""
        with self._turning:
            if zxid is not None and self.zxid >= zxid:
                return
            wish = self._wishes = self._wishes + 1
            self._wake()
            while self._granted < wish:
                if not self.session.trusted:
                    raise Unavailable(
                        "ZooKeeper does not answer this server, which cannot show newer records; try again"
                    )
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"this server shows zxid {self.zxid} and no newer one yet; try again")
                self._turning.wait(min(left, LOOK_SECONDS))
            if zxid is not None and self.zxid < zxid:  # after a sync: no write has this number
                raise Conflict(
                    f"this cluster has reached zxid {self.zxid}, and not {zxid}: that is of another cluster, or ZooKeeper was"
                    " restored from a copy; leave Ocb-Min-Zxid out, and read again"
                )

    # -- on the turn thread --

    def load(self) -> None:
        self.session.sync()
        zxid = self.session.last_zxid
        self._feeder.watch()
        self._tokens.watch()
        with self._turning:
            self._read(self._cache.load)
            self._loaded = True
            self._digest, self.rows = WorldDigest(), KeptRows()
            if zxid < self.zxid:  # ZooKeeper was restored: its numbers come again, with other records
                self._restores += 1
                self.zxid = zxid
            self._show((), self._cache.world.nodes, SHOWN)
            self._feeder.begin(self._cache.world, zxid)
            self._turned(self._wishes, zxid)

    def refresh(self) -> None:
        """Read the changes. All writes up to the zxid of an answer had their events before it."""
        wishes = self._wishes
        if wishes > self._granted:
            self.session.sync()
        taken = self._feeder.take(self.session.last_zxid)
        with self._turning:
            changed = self._read(self._cache.refresh)
            self._show(changed.vertices, changed.nodes, changed.kinds)
            self._feeder.give(self._cache.world, changed, taken)
            self._turned(wishes, taken.zxid)

    def sweep(self) -> None:
        taken = self._feeder.take(self.session.last_zxid)
        with self._turning:
            changed = self._read(self._cache.sweep)
            self._show(changed.vertices, changed.nodes, changed.kinds)
            self._feeder.give(self._cache.world, changed, taken)
            self._turned(self._granted, taken.zxid)
        metrics.QUARANTINED.set(len(self._cache.quarantined))

    def _read(self, read: Callable[[], ChangeSet]) -> ChangeSet:
        """The changes. After a failure the world may show some of them, and no row is kept: rows would mix both states."""
        try:
            return read()
        except BaseException:
            self.rows = KeptRows()
            raise

    def _show(self, vertices: Iterable[Vertex], nodes: Iterable[str], kinds: Iterable[type[Record]]) -> None:
        self.rows.forget(vertices)
        self._digest.follow(self._cache.world, nodes, kinds)
        text = self._digest.text
        self.world_version = text if not self._restores else f"{text}-{self._restores}"

    def _turned(self, wishes: int, zxid: int) -> None:
        self._granted, self.zxid = max(self._granted, wishes), max(self.zxid, zxid)
        self._turning.notify_all()

    def kept_entries(self, after: int, most: int, pool: bool) -> KeptEntries:
        """As ``ServedRecords.kept_entries`` states."""
        numbers = [each for each in journal.numbers(self.session, pool) if each > after]
        page = numbers[:most]
        found = [(pool, each) for each in journal.read(self.session, page, pool)]
        with self.reading() as world:
            items = self._feeder.shown(world, found)
        return KeptEntries(items, next(iter(page), None), page[-1] if page else after)

    def time_of_entry(self, number: int, pool: bool) -> int | None:
        """As ``ServedRecords.time_of_entry`` states."""
        return next((each.made for each in journal.read(self.session, [number], pool)), None)

    # -- tokens --

    def still_valid(self, id: str, token: Token) -> bool:
        """As ``ServedRecords.still_valid`` states."""
        now = self._tokens.read(id)
        return now is not None and replace(now, used=token.used) == token and not now.ended(self.session.now())

    def known_token(self, id: str, secret: str) -> Token | None:
        """As ``ServedRecords.known_token`` states."""
        return self._tokens.known(id, secret)

    def valid_token(self, id: str, secret: str) -> Token | None:
        """As ``ServedRecords.valid_token`` states."""
        return self._tokens.valid(id, secret) or self._of_boot(id, secret)

    def _of_boot(self, id: str, secret: str) -> Token | None:
        """The token of a boot that an installation caused. The world may be older than the installation: then it catches up.

        The machine ends its boot where the token is refused. Raises as ``catch_up``.
        """
        token = self._boot_credential(id)
        if token is None and tokens.is_id(id) and not self._tokens.remembers(id):
            self.catch_up(None, time.monotonic() + self.settings.api.deadline_seconds)
            token = self._boot_credential(id)
        return token if token is not None and token.valid(secret, self.session.now()) else None

    def _boot_credential(self, id: str) -> Token | None:
        with self._turning:
            return installing.boot_credential(self._cache.world, id) if self._loaded else None

    def wrote(self, written: Iterable[str]) -> None:
        """As ``ServedRecords.wrote`` states."""
        self.writes += 1
        self._tokens.doubt(written)

    def next_end(self) -> float:
        """As ``ServedRecords.next_end`` states."""
        with self.reading() as world:
            return maintenance.next_end(world, self.now())

    def use_due(self, id: str) -> bool:
        """As ``ServedRecords.use_due`` states."""
        return self._tokens.use_due(id)

    def note_use(self, id: str) -> None:
        """As ``ServedRecords.note_use`` states."""
        self._tokens.note_use(id)


class ApiDaemon:
    """The controller of the daemon; all on the turn thread, but for ``doing``."""

    def __init__(
        self, session: Session, settings: Settings, daemon: Daemon, listener: Callable[[Any], Listener]
    ) -> None:
        self.session = session
        self.id = f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}"
        self.registration = Registration(session, ClientKind.API, self.id, daemon)
        self.turns = Turns(session, self.registration, self)
        self.records = ApiRecords(session, settings, self.turns.wake.set)
        self.listener = listener(self.records)
        self.trouble: str | None = None
        self._marks_at = 0.0  # when old marks of calls are next deleted (monotonic)

    @property
    def sweep_seconds(self) -> float:
        """The time from one sweep to the next."""
        return self.records.settings.api.sweep_seconds

    def load(self) -> None:
        """A new session: find the cluster, register, and read everything. The first time, requests are taken from then on."""
        self.records.cluster = clusters.current(self.session, self.records.cluster).id
        self.registration.write()
        with suppress(Denied):  # a cluster that is older than marks of calls; with ACLs, `nodepool-ocb init` makes it
            self.session.ensure(paths.CALLS)
        with suppress(Denied, Invalid):  # the same of the key for logs; requests for logs report it
            logkeys.ensure(self.session)
        self.records.load()
        self.listener.open()

    def refresh(self) -> None:
        """Read the changes."""
        self.records.refresh()

    def sweep(self) -> None:
        """Read everything."""
        clusters.current(self.session, self.records.cluster)
        self.registration.compare(daemons.read(self.session, ClientKind.API).get(self.id))
        if time.monotonic() >= self._marks_at:
            keyed.sweep(self.session)
            self._marks_at = time.monotonic() + MARKS_SECONDS
        self.records.sweep()

    def decide(self) -> float:
        """Nothing is decided here: requests are performed on threads of their own."""
        self.trouble = self.listener.trouble
        return self.sweep_seconds

    def trouble_changed(self, trouble: str | None) -> None:
        """Nothing follows."""

    def served_at(self, address: str | None) -> None:
        """HOST:PORT of our pages, or that there are none."""
        self.registration.change(pages=address)

    def doing(self) -> str:
        """The present work, in one sentence."""
        draining = "draining: " if self.turns.draining else ""
        return f"{draining}serving {self.listener.address}, {self.listener.connections} connections"

    @property
    def drained(self) -> bool:
        """Whether no request is under way, or the time of the wait is over."""
        return self.listener.idle or self.turns.drained_for(self.records.settings.api.drain_seconds)

    def drain(self, seconds: float) -> None:  # noqa: ARG002
        """Take no new connections, and end the streams of events: their clients go on at another server."""
        self.records.feed.close()
        self.listener.stop()

    def close(self) -> None:
        """End the connections that are left, within seconds."""
        self.listener.close()
