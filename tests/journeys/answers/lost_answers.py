"""Transactions whose answers are lost, with another writer between: the report of each is compared with ZooKeeper's answer.

``Ledger.watch`` takes the place of ``Session.commit``, ``commit_soon`` and ``create_next``. ZooKeeper's answer to each
transaction is kept as the truth. The session gets no answer: ``Session.resolve`` finds the outcome, and the caller gets that.
Of a site that got OutcomeUnknown once the answer arrives: a transaction without a signature would be OutcomeUnknown each time.

Each transaction is put through these moments:

- *never arrived*: it is not sent;
- *another first*: another writer writes first; then it is sent, and is refused;
- *applied*: it is sent, and no other writer comes between (*refused*, where ZooKeeper refused it);
- *written over*: it is sent, and another writer then writes the same records once more.

The number of a znode that ``create_next`` makes is ZooKeeper's: another writer that comes first does not refuse it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from kazoo.exceptions import ConnectionLoss, NoNodeError

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, OcbError, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Json, Record, Set
from nodepool_ocb.store.client import codec, frames, outcome
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.session import Doubt, Session, Stats
from tests.journeys.answers import write_sites

#: Another writer does not write these over where verbs write: the driver, or the process that prepares, would be another.
SPARED: Final = (paths.ROLLOUTS, paths.TASK_RUNS, paths.DAEMONS, "/nodepool/daemons")


class Moment(StrEnum):
    """When the answer is lost."""

    NEVER = "never arrived"
    FIRST = "another first"
    APPLIED = "applied"
    REFUSED = "refused"
    OVER = "written over"


class Rival(StrEnum):
    """How another writer comes first."""

    SAME = "same"  # with the same changes, as far as it may make them
    STRUCTURE = "structure"  # with another change of the structure: the record is the same
    TOUCH = "touch"  # with the same content as before, at a new version: the transaction is to be tried again


class Report(NamedTuple):
    """One transaction at one moment."""

    about: str
    moment: str
    applied: bool  # by ZooKeeper's answer
    verdict: str  # done, refused, not written, unknown
    proof: bool  # one of its members has its signature
    changes: str
    site: str  # which call of the product wrote it (write_sites)

    @property
    def false(self) -> bool:
        """Whether the report contradicts ZooKeeper."""
        return (self.verdict == "done") != self.applied and self.verdict != "unknown"

    @property
    def vague(self) -> bool:
        """Whether an applied transaction with a signature, over which nobody wrote, is not known."""
        return self.verdict == "unknown" and self.moment == Moment.APPLIED and self.proof


class Sparing(StrEnum):
    """Which transactions lose their answers."""

    EACH = "each"  # all, at all moments; another writer is first once for each shape
    SHAPE = "shape"  # at each moment one of each site and shape, as its changes are named
    SITE = "site"  # at each moment one of each site


class Ledger:
    """The reports; ``about`` names the verb or the daemon; ``file`` gets them, too, a line each.

    ``spared``: the paths below which another writer writes nothing over. ``between``: the lock of a transaction with its moments.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        rival: Rival,
        file: Path | None = None,
        *,
        sparing: Sparing = Sparing.EACH,
        spared: tuple[str, ...] = SPARED,
    ) -> None:
        self.reports: list[Report] = []
        self.about = ""
        self._rival, self._how, self._file = Session(settings), rival, file
        self._sparing, self._spared = sparing, spared
        self._met = set[tuple[str, ...]]()
        self.between = threading.RLock()
        self._create_next = Session.create_next  # the product's

    def __enter__(self) -> Ledger:
        self._rival.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rival.close()

    @contextmanager
    def watch(self, only: Callable[[Session], bool] = lambda _: True) -> Iterator[None]:
        """These sessions of this process lose their answers."""
        ledger, real, real_soon, real_next = self, Session.commit, Session.commit_soon, Session.create_next

        def lossy(session: Session) -> bool:
            return session is not ledger._rival and only(session)

        def commit(session: Session, changes: Sequence[Change]) -> Stats:
            if not changes or not lossy(session):
                return real(session, changes)
            answer = ledger.put_through(session, changes)
            if isinstance(answer, Doubt):
                return session.resolve(answer)
            if isinstance(answer, OcbError):
                raise answer
            return answer

        def commit_soon(session: Session, changes: Sequence[Change], done: Callable[[Any], None]) -> None:
            if not lossy(session):
                real_soon(session, changes, done)
                return
            try:
                done(ledger.put_through(session, changes))
            except Invalid as wrong:
                done(wrong)

        def create_next(session: Session, prefix: str, data: Record | Json, ephemeral: bool = False) -> str:
            if not lossy(session):
                return real_next(session, prefix, data, ephemeral)
            return ledger.put_next_through(session, prefix, data, ephemeral)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "commit", commit)
            patch.setattr(Session, "commit_soon", commit_soon)
            patch.setattr(Session, "create_next", create_next)
            yield

    # -- a transaction --

    def put_through(self, session: Session, changes: Sequence[Change]) -> Stats | OcbError:
        """Send it, with the transactions that come between; gives a Doubt. Raises Invalid as the session does."""
        with self.between:
            packed, sending = session._pack(changes)
            doubt = Doubt("the answer was taken away", sending)
            site, shape = write_sites.here(), _shape(changes)
            if self._new(Moment.NEVER, site, shape):
                self._ask(session, site, Moment.NEVER, doubt, applied=False)
            first = self._once(Moment.FIRST, site, shape, lambda: self._comes_first(changes))
            if first:
                packed, sending = session._pack(changes)
                doubt = Doubt("the answer was taken away", sending)
            answer = session._result(sending, session._send(packed.request).get(10.0), time.monotonic())
            applied = not isinstance(answer, OcbError)
            moment = Moment.FIRST if first else Moment.APPLIED if applied else Moment.REFUSED
            if not first and not self._new(moment, site, shape):
                if not applied or not self._once(Moment.OVER, site, shape, lambda: self._write_over(changes)):
                    return answer
                moment = Moment.OVER
            verdict = self._ask(session, site, moment, doubt, applied)
            if moment is Moment.APPLIED and self._sparing is Sparing.EACH and self._write_over(changes):
                verdict = self._ask(session, site, Moment.OVER, doubt, applied=True)
            return answer if self._known(verdict, site) else doubt

    def _known(self, verdict: str, site: str) -> bool:
        """Whether the answer arrives: it would be OutcomeUnknown, as it was before at this site."""
        if verdict != "unknown":
            return False
        known = ("unknown", site) in self._met
        self._met.add(("unknown", site))
        return known

    def _new(self, moment: Moment, site: str, shape: str) -> bool:
        """Whether the transaction is put through this moment."""
        return self._once(moment, site, shape, lambda: True)

    def _once(self, moment: Moment, site: str, shape: str, write: Callable[[], bool]) -> bool:
        """As ``_new``, if the other writer wrote. A moment in which it could not write comes again."""
        if self._sparing is Sparing.EACH and moment is not Moment.FIRST:
            return write()
        if self._sparing is Sparing.EACH:
            key: tuple[str, ...] = (moment, self.about, shape)
        else:
            key = (moment, site, shape) if self._sparing is Sparing.SHAPE else (moment, site)
        if key in self._met or not write():
            return False
        self._met.add(key)
        return True

    def _comes_first(self, changes: Sequence[Change]) -> bool:
        first: Iterable[Change] = ()
        if self._how is Rival.STRUCTURE:
            first = [each for each in changes if isinstance(each, Set) and each.path == paths.STRUCTURE]
        elif self._how is Rival.SAME:
            first = [
                each
                for each in changes
                if not (isinstance(each, Append) or (isinstance(each, Create) and each.ephemeral))
            ]
        else:
            made = [each for each in changes if isinstance(each, Create) and not each.path.startswith(self._spared)]
            appended = [each for each in changes if isinstance(each, Append)]
            first = self._touch(changes) or made[:1] or appended
        first = list(first)
        if all(isinstance(each, Check) for each in first):
            return False
        try:
            self._rival.commit(first)
        except (Stale, Unavailable):
            return False
        return True

    def _touch(self, changes: Sequence[Change]) -> list[Change]:
        """The record that the transaction writes, or needs as it is, written again as it is."""
        written = [each for each in changes if isinstance(each, Set)]
        others = [each for each in changes if isinstance(each, Delete | Check)]
        for each in [*written, *others]:
            znode = self._rival.get(each.path)
            if znode is not None and znode.version == each.version:
                return [Set(each.path, _content(znode.data), znode.version)]
        return []

    def _write_over(self, changes: Sequence[Change]) -> bool:
        """Whether there was a record to write over."""
        data = {
            each.path: each.data
            for each in changes
            if isinstance(each, Create | Set)
            and isinstance(each.data, Record)
            and not each.path.startswith(self._spared)
        }
        found = [each for each in self._rival.get_many(list(data)) if each is not None]
        written = [Set(each.path, data[each.path], each.version) for each in found]
        appended = [each for each in changes if isinstance(each, Append)]
        try:
            self._rival.commit([*written, *appended])
        except (Stale, Unavailable):  # a test wrote at the same time
            return False
        return bool(written or appended)

    # -- a znode with ZooKeeper's number --

    def put_next_through(self, session: Session, prefix: str, data: Record | Json, ephemeral: bool) -> str:
        """As ``put_through``; from the lost answer on, the session's own code looks for the path."""
        with self.between:
            site, shape, signed = write_sites.here(), _numbered(prefix), isinstance(data, Record)

            def made(moment: Moment, answer: Callable[[frames.Raw], _Lost]) -> str | OcbError:
                with _loses(session, answer) as lost:
                    try:
                        found: str | OcbError = self._create_next(session, prefix, data, ephemeral)
                    except OcbError as refused:
                        found = refused
                verdict = _verdict_of(found) if found == lost[0].path or isinstance(found, OcbError) else "another's"
                path = lost[0].path
                self._report(Report(self.about, moment, path is not None, verdict, signed, path or shape, site))
                return found

            def arrived(request: frames.Raw) -> _Lost:
                value = SessionReads._send(session, request).get(10.0)
                path = frames.unpack_path(value) if isinstance(value, frames.Reply) else None
                return _Lost(path and path.removeprefix(session.chroot), value)

            def written_over(request: frames.Raw) -> _Lost:
                answer = arrived(request)
                if answer.path is not None:
                    self._rival.commit([Set(answer.path, data, 0)])
                return answer

            if self._new(Moment.NEVER, site, shape):
                made(Moment.NEVER, lambda _: _Lost())
            if self._new(Moment.FIRST, site, shape):
                other = self._create_next(self._rival, f"{prefix.rpartition('/')[0]}/{'f' * 32}__lock__", None, True)
                found = made(Moment.FIRST, arrived)
                self._rival.commit([Delete(other, 0)])
            elif signed and self._new(Moment.OVER, site, shape):
                found = made(Moment.OVER, written_over)
            else:
                found = made(Moment.APPLIED, arrived)
            truth = self.reports[-1]
            if isinstance(found, OcbError) and truth.applied and self._known(truth.verdict, site):
                return truth.changes
            if isinstance(found, OcbError):
                raise found
            return found

    # -- reports --

    def _ask(self, session: Session, site: str, moment: Moment, doubt: Doubt, applied: bool) -> str:
        changes = doubt.sending.changes
        proof = outcome.provable(changes)
        named = ", ".join(f"{type(each).__name__} {each.path}" for each in changes if not isinstance(each, Check))
        verdict = _verdict(session, doubt)
        self._report(Report(self.about, moment, applied, verdict, proof, named, site))
        return verdict

    def _report(self, report: Report) -> None:
        self.reports.append(report)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(report) + "\n")


class _Lost(NamedTuple):
    """An answer that is lost; ``path``: the znode that was made, ``value``: a refusal, which is an answer."""

    path: str | None = None
    value: Any = None

    def get(self, _timeout_seconds: float) -> Any:
        return self.value if isinstance(self.value, NoNodeError) else ConnectionLoss("the answer was taken away")


@contextmanager
def _loses(session: Session, answer: Callable[[frames.Raw], _Lost]) -> Iterator[list[_Lost]]:
    """The next request of this thread loses its answer."""
    thread, lost = threading.get_ident(), list[_Lost]()

    def send(request: frames.Raw) -> Any:
        if lost or threading.get_ident() != thread:
            return SessionReads._send(session, request)
        lost.append(answer(request))
        return lost[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_send", send)
        yield lost


def _shape(changes: Sequence[Change]) -> str:
    """The changes, without numbers and names that are made anew each time."""
    named = " ".join(sorted(f"{type(each).__name__} {each.path}" for each in changes))
    return re.sub(r"[0-9a-f]{32}__lock__|[0-9]{10}[\w.-]*", "N", named)


def _numbered(prefix: str) -> str:
    return "CreateNext " + re.sub(r"[0-9a-f]{32}|[0-9]{10}", "N", prefix)


def _content(data: bytes) -> Json:
    """As a writer without signature writes it."""
    content: Json = msgspec.json.decode(codec.unsigned(data)) if data else None
    return content


def read(file: Path) -> list[Report]:
    """The reports of a daemon."""
    return [Report(*json.loads(line)) for line in file.read_text().splitlines()]


def _verdict(session: Session, doubt: Doubt) -> str:
    try:
        return _verdict_of(session.resolve(doubt))
    except OcbError as refused:
        return _verdict_of(refused)


def _verdict_of(result: object) -> str:
    if isinstance(result, Stale):
        return "refused"
    if isinstance(result, OutcomeUnknown):
        return "unknown"
    return "not written" if isinstance(result, OcbError) else "done"


def untried(reports: Sequence[Report], sites: Iterable[str]) -> list[str]:
    """The sites that the reports do not name, or not at each moment that their transactions can be put through.

    A transaction without a record cannot be written over. One that only creates what is ephemeral is not refused.
    """
    met = {(each.site, each.moment) for each in reports}
    proofs = {each.site for each in reports if each.proof}
    wanted = [
        (site, moment)
        for site in sites
        for moment in (Moment.NEVER, Moment.FIRST, Moment.APPLIED, Moment.OVER)
        if moment is not Moment.OVER or site in proofs
    ]
    return sorted(f"{site}: {moment}" for site, moment in wanted if (site, moment) not in met)


def table(reports: Sequence[Report]) -> list[str]:
    """How many transactions have which verdict, by moment and ZooKeeper's answer."""
    counts = Counter((each.moment, "applied" if each.applied else "not applied", each.verdict) for each in reports)
    return [
        f"{moment}: {truth}, found {verdict}: {count}" for (moment, truth, verdict), count in sorted(counts.items())
    ]


def faults(reports: Sequence[Report]) -> list[Report]:
    """Those that contradict ZooKeeper, or know less than they could."""
    return [each for each in reports if each.false or each.vague]
