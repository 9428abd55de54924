"""Transactions whose answers are lost, with another writer between: the report of each is compared with ZooKeeper's answer.

``Ledger.watch`` takes the place of ``Session.commit`` and ``commit_soon``. ZooKeeper's answer to each transaction is kept as
the truth. The session learns nothing of it, and must find out by ``Session.resolve``.

Each transaction is put through these moments:

- *never arrived*: it is not sent;
- *another first*: another writer writes the same, or the structure alone; then it is sent, and is refused;
- *applied*: it is sent, and nobody else writes;
- *written over*: another writer then writes the same records and the structure once more.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import OcbError, Stale, Unavailable, Unknown
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Append, Change, Check, Create, Record, Set
from nodepool_ocb.store.client import outcome
from nodepool_ocb.store.client.session import Doubt, Session, Stats

#: Another writer does not write these over: who drives, or prepares, would be another.
SPARED = (paths.ROLLOUTS, paths.TASK_RUNS, paths.DAEMONS, "/nodepool/daemons")


class Rival(StrEnum):
    """How another writer comes first."""

    SAME = "same"  # with the same changes, as far as it may make them
    STRUCTURE = "structure"  # with another change of the structure: the record is the same


class Report(NamedTuple):
    """One transaction at one moment."""

    about: str
    moment: str
    applied: bool  # by ZooKeeper's answer
    verdict: str  # done, refused, not written, unknown
    proof: bool  # one of its members has its signature
    changes: str

    @property
    def false(self) -> bool:
        """Whether the report contradicts ZooKeeper."""
        return (self.verdict == "done") != self.applied and self.verdict != "unknown"

    @property
    def vague(self) -> bool:
        """Whether an applied transaction with a signature, over which nobody wrote, is not known."""
        return self.verdict == "unknown" and self.moment == "applied" and self.proof


class Ledger:
    """The reports; ``about`` names the verb or the daemon; ``file`` gets them, too, a line each.

    ``overwrites``: another writer writes over what was applied.
    """

    def __init__(
        self, settings: ZooKeeperSettings, rival: Rival, file: Path | None = None, *, overwrites: bool = True
    ) -> None:
        self._overwrites = overwrites
        self.reports: list[Report] = []
        self.about = ""
        self._rival, self._how, self._file = Session(settings), rival, file
        self._met: set[tuple[str, str]] = set()
        self._lock = threading.RLock()

    def __enter__(self) -> Ledger:
        self._rival.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rival.close()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Every session of this process loses its answers."""
        ledger, real = self, Session.commit

        def commit(session: Session, changes: Sequence[Change]) -> Stats:
            if session is ledger._rival or not changes:
                return real(session, changes)
            result = ledger.put_through(session, changes)
            if isinstance(result, Doubt):
                return session.resolve(result)
            if isinstance(result, OcbError):
                raise result
            return result

        def commit_soon(session: Session, changes: Sequence[Change], done: Callable[[Any], None]) -> None:
            done(ledger.put_through(session, changes, keep_doubt=True))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "commit", commit)
            patch.setattr(Session, "commit_soon", commit_soon)
            yield

    def put_through(self, session: Session, changes: Sequence[Change], keep_doubt: bool = False) -> Stats | OcbError:
        """Send it, with what comes between; a Doubt where ``keep_doubt``, and the session is to find out by itself."""
        with self._lock:
            packed, sending = session._pack(changes)
            doubt = Doubt("the answer was taken away", sending)
            self._ask(session, "never arrived", doubt, applied=False)
            if self._first(changes) and self._comes_first(changes):
                packed, sending = session._pack(changes)
                doubt = Doubt("the answer was taken away", sending)
                answer = self._send(session, doubt, packed)
                self._ask(session, "another first", doubt, applied=not isinstance(answer, OcbError))
                return doubt if keep_doubt else answer
            answer = self._send(session, doubt, packed)
            applied = not isinstance(answer, OcbError)
            self._ask(session, "applied" if applied else "refused", doubt, applied)
            if applied and self._overwrites:
                self._write_over(changes)
                self._ask(session, "written over", doubt, applied=True)
            return doubt if keep_doubt else answer

    def _first(self, changes: Sequence[Change]) -> bool:
        """Whether another is to come first: once for what is the same for each verb."""
        named = " ".join(sorted(f"{type(each).__name__} {each.path}" for each in changes))
        key = self.about, re.sub(r"[0-9a-f]{32}__lock__|[0-9]{10}[\w.-]*", "N", named)
        new = key not in self._met
        self._met.add(key)
        return new

    def _send(self, session: Session, doubt: Doubt, packed: Any) -> Stats | OcbError:
        return session._result(doubt.sending, session._send(packed.request).get(10.0), time.monotonic())

    def _comes_first(self, changes: Sequence[Change]) -> bool:
        if self._how is Rival.STRUCTURE:
            changes = [each for each in changes if isinstance(each, Set) and each.path == paths.STRUCTURE]
        else:
            changes = [
                each
                for each in changes
                if not (isinstance(each, Append) or (isinstance(each, Create) and each.ephemeral))
            ]
        if all(isinstance(each, Check) for each in changes):
            return False
        try:
            self._rival.commit(changes)
        except (Stale, Unavailable):
            return False
        return True

    def _write_over(self, changes: Sequence[Change]) -> None:
        written = [
            each.path
            for each in changes
            if isinstance(each, Create | Set)
            and isinstance(each.data, Record)
            and not each.path.startswith(SPARED)
            and not (isinstance(each, Create) and each.ephemeral)
        ]
        data = {each.path: each.data for each in changes if isinstance(each, Create | Set)}
        found = self._rival.get_many(written)
        self._rival.commit([Set(each.path, data[each.path], each.version) for each in found if each is not None])

    def _ask(self, session: Session, moment: str, doubt: Doubt, applied: bool) -> None:
        changes = doubt.sending.changes
        proof = outcome.provable(changes)
        named = ", ".join(f"{type(each).__name__} {each.path}" for each in changes if not isinstance(each, Check))
        report = Report(self.about, moment, applied, _verdict(session, doubt), proof, named)
        self.reports.append(report)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(report) + "\n")


def read(file: Path) -> list[Report]:
    """The reports of a daemon."""
    return [Report(*json.loads(line)) for line in file.read_text().splitlines()]


def _verdict(session: Session, doubt: Doubt) -> str:
    try:
        session.resolve(doubt)
    except Stale:
        return "refused"
    except Unknown:
        return "unknown"
    except Unavailable:
        return "not written"
    return "done"


def table(reports: Sequence[Report]) -> list[str]:
    """How many transactions  have which verdict, by moment and ZooKeeper's answer."""
    counts = Counter((each.moment, "applied" if each.applied else "not applied", each.verdict) for each in reports)
    return [
        f"{moment}: {truth}, found {verdict}: {count}" for (moment, truth, verdict), count in sorted(counts.items())
    ]


def faults(reports: Sequence[Report]) -> list[Report]:
    """Those that contradict ZooKeeper, or know less than they could."""
    return [each for each in reports if each.false or each.vague]
