"""Faults beside those of daemons, in a storm. Each trouble is a thread with its own random numbers, which makes a fault
and mends it, again and again.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model.records import Json, Set
from nodepool_ocb.store.client.session import Session

MENDED_SECONDS: Final = 120.0


class Trouble:
    """Makes faults while its context lasts, then finishes the present one. An exception of the trouble itself is raised
    at the end.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.times = 0
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, name=type(self).__name__, daemon=True)

    def round(self) -> None:
        """Make some trouble, and mend it; Unavailable where none was made, for want of a ZooKeeper."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.times}"

    def pause(self, least: float, most: float) -> None:
        """So many seconds, or until the storm is over."""
        self._over.wait(self.chance.uniform(least, most))

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                self.round()
                self.times += 1
            except Unavailable:
                continue
            except BaseException as wrong:
                self._failed.append(wrong)
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(MENDED_SECONDS * 2)
        if self._thread.is_alive():
            raise RuntimeError(f"{type(self).__name__} does not end")
        if self._failed and error is None:
            raise self._failed[0]


class Unreadable(Trouble):
    """A record becomes unreadable, or one of a later version; seconds later it is back.

    ``among`` gives the paths of which one is chosen.
    """

    def __init__(self, settings: ZooKeeperSettings, seed: int, among: Callable[[Session], Sequence[str]]) -> None:
        super().__init__(seed)
        self._settings, self._among = settings, among
        self.spoiled: str | None = None  # the path of the record that cannot be read now
        self.ever: set[str] = set()  # the paths of all records that could not be read for a while

    def round(self) -> None:
        self.pause(0.2, 1.5)
        with Session(self._settings) as session:
            found = self._among(session)
            path = self.chance.choice(found) if found else ""
            znode = session.get(path) if found else None
            if znode is None:
                return
            good: Json = msgspec.json.decode(znode.data)
            bad = self.chance.choice(["no record", {**good, "schema": 99}])
            self.spoiled = path
            self.ever.add(path)
            try:
                self._spoil(session, path, (good, bad), znode.version)
            finally:
                self.spoiled = None

    def _spoil(self, session: Session, path: str, records: tuple[Json, Json], version: int) -> None:
        try:
            session.commit([Set(path, records[1], version)])
            self.pause(0.2, 3.0)
        except Stale:
            return  # another writer changed it just now
        except Unavailable:
            pass  # it may have been written
        self._put_back(session, path, records, version + 1)

    @staticmethod
    def _put_back(session: Session, path: str, records: tuple[Json, Json], version: int) -> None:
        """Mend the record as soon as ZooKeeper is there, also if another writer wrote it again as it was spoiled."""
        good, bad = records
        deadline = time.monotonic() + MENDED_SECONDS
        while True:
            try:
                with contextlib.suppress(Stale):
                    session.commit([Set(path, good, version)])
                    return
                znode = session.get(path)
                if znode is None or msgspec.json.decode(znode.data) != bad:
                    return  # it was not spoiled, or was deleted or mended meanwhile
                version = znode.version
            except Unavailable:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{path} cannot be mended: ZooKeeper does not come back") from None
                time.sleep(0.1)
