"""The records that the server module gives to the routes: the cache of the world, tokens, and the state of ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from nodepool_ocb.api.feed.items import EntryItem
from nodepool_ocb.api.feed.ring import EventFeed
from nodepool_ocb.config import Settings
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.views.keptrows import KeptRows


class KeptEntries(NamedTuple):
    """Entries of the journal. ``first``: the number of the first that is kept; ``reached``: of the last that was read."""

    items: list[EntryItem]
    first: int | None
    reached: int


class ServedRecords(Protocol):
    """Every method may be called on any thread; one that reads may raise Unavailable or Denied."""

    @property
    def settings(self) -> Settings: ...
    @property
    def cluster(self) -> str:
        """The id of the cluster; empty before it is known."""

    @property
    def zxid(self) -> int:
        """The cache shows all writes up to here."""

    @property
    def age_seconds(self) -> float:
        """The age of the newest answer of ZooKeeper."""

    @property
    def trusted(self) -> bool:
        """Whether ZooKeeper answers."""

    @property
    def session(self) -> Any:
        """The session that reads share."""

    def reading(self) -> AbstractContextManager[Any]:
        """The world of the cache, which does not change within the block."""

    def glimpse(self) -> AbstractContextManager[Any]:
        """As ``reading``; None instead of a wait for a refresh that is under way, and before the world is known."""

    def catch_up(self, zxid: int | None, deadline: float) -> None:
        """Return when the cache shows all writes up to ``zxid``; None: all writes before this call.

        Raises TimedOut at the deadline (monotonic), Unavailable while ZooKeeper is away, and Conflict for a zxid that the
        cluster does not have.
        """

    def known_token(self, id: str, secret: str) -> Token | None:
        """The valid token, if it was read before and ZooKeeper has announced no change since. Never waits.

        None says nothing: ask ``valid_token``.
        """

    def valid_token(self, id: str, secret: str) -> Token | None:
        """The token of this id, as ZooKeeper has it; while it is away, as it was a short time ago.

        None without one, for another secret, and for a token that has ended by ZooKeeper's clock. Raises TimedOut, and
        Unavailable without ZooKeeper, for a token that may be newer than the records here.
        """

    writes: int  # of this server since its start

    def wrote(self, written: Iterable[str]) -> None:
        """This server has written, at these paths: read each token again before it opens anything."""

    def next_end(self) -> float:
        """When a hold or a pause of the world ends next, in seconds since the epoch; infinite without one."""

    def use_due(self, id: str) -> bool:
        """Whether ``note_use`` would write. Never waits."""

    def note_use(self, id: str) -> None:
        """Write the last use of a token, if the written one is some minutes old."""

    @property
    def world_version(self) -> str | None:
        """The digest of all records of the world; None before they are known. Never waits."""

    @property
    def rows(self) -> KeptRows:
        """The rows of noderoles that were made before; used within ``reading``."""

    @property
    def feed(self) -> EventFeed:
        """The latest events."""

    def kept_entries(self, after: int, most: int, pool: bool) -> KeptEntries:
        """The oldest entries above a number, of launchers or of all others."""

    def time_of_entry(self, number: int, pool: bool) -> int | None:
        """The time of an entry, in milliseconds since the epoch; None if it is not kept."""

    def still_valid(self, id: str, token: Token) -> bool:
        """Whether a token that was valid is the same still, and has not ended."""

    def now(self) -> float:
        """The time by ZooKeeper's clock, as far as it is known."""
