"""The log of a run: from its annealer's page, a file of this host, or its end in the record.

The log of a run that another annealer takes over goes on there, under another name and with the same bytes. The machine keeps
the output, and each annealer has it from its first byte on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from nodepool_ocb.errors import NotFound, Unavailable
from nodepool_ocb.http import logs
from nodepool_ocb.http.following import NOTHING_YET, Follower, Found, LogDelivery, LogPlaces, first, rest
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Daemon, NodeRole, Run, State
from nodepool_ocb.operations import logs as daemonlogs
from nodepool_ocb.operations.logs import RunChosen
from nodepool_ocb.operations.names import noderole_of
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.views.noderoles import RunOutput, ended

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


LOOK_SECONDS: Final = 5.0  # watches are hints
RESULTS: Final = ("succeeded", "failed")  # outcomes that tell of the output


class RunSeen(msgspec.Struct, frozen=True):
    """A run as ZooKeeper has it."""

    run: str
    noderole: NodeRole | None = None  # None: it was deleted
    claim: Claim | None = None
    record: Run | None = None  # once the run has ended, or was taken over

    @property
    def ended(self) -> bool:
        """Whether nothing goes on of it, here or under another name."""
        noderole = self.noderole
        return noderole is None or noderole.run != self.run or noderole.state is not State.TRANSITION

    @property
    def annealer(self) -> str:
        """The annealer that has it, or had it last."""
        if self.claim is not None and self.claim.run == self.run:
            return self.claim.annealer
        return self.record.annealer if self.record else (self.noderole and self.noderole.by) or ""


def succeeding(seen: RunSeen) -> str | None:
    """The run by which it was taken over and which goes on now, or was the newest; None where it was not."""
    record, noderole = seen.record, seen.noderole
    if record is None or noderole is None or record.outcome != "abandoned" or noderole.run == seen.run:
        return None
    return noderole.run if noderole.generation == record.generation else None


def host_of(annealer: str) -> str:
    """The host in the name that an annealer gives itself.

    >>> host_of("web-1-8b6f2a10-c0ffee10")
    'web-1'
    """
    return annealer.rsplit("-", 2)[0]


class RunLogSeen(msgspec.Struct, frozen=True):
    """A look at the log of a run, as a server of the API gives it."""

    places: LogPlaces
    seen: RunSeen


class AnyRunLog(daemonlogs.AskedLog, Protocol):
    """The log of a run, from its daemons or from a server of the API."""

    noderole: str
    jig: str
    seen: RunSeen


class RunLog:
    """The places of a run's log; ``look`` finds them again."""

    regrows = True

    def __init__(self, opened: Session, chosen: RunChosen, log_dir: str | None, *, files: bool = True) -> None:
        """``log_dir``: the folder of logs in this host's configuration. ``files``: a file of this host may be read."""
        self._opened = opened
        self._role, self._fqdn = chosen.role, chosen.node
        self._log_dir = log_dir
        self._files = files
        self.noderole = paths.noderole_name(chosen.role, chosen.node)
        self.jig = chosen.jig
        self.seen = RunSeen(chosen.run, chosen.record)
        self.places = LogPlaces(self._name)
        self.access = logs.LogAccess()
        self.looked = self.look()

    @property
    def _name(self) -> str:
        return logs.of_run(self._role, self._fqdn, self.seen.run)

    @property
    def ended(self) -> bool:
        """Whether the run had ended at the last look."""
        return self.seen.ended

    def look(self) -> bool:
        """Read the state again, of the run that took it over if one has; False while ZooKeeper is away."""
        try:
            seen = self._read(self.seen.run)
            while (following := succeeding(seen)) is not None:
                seen = self._read(following)
            annealers = daemonlogs.daemons(self._opened, "annealer")
            access = daemonlogs.access(self._opened, annealers)
        except Unavailable:
            return False
        self.seen, self.access = seen, access
        self.places = self._places(annealers)
        return True

    def ask(self, offset: int, wait_seconds: float) -> tuple[str, Found]:
        """The place and the piece from a byte on."""
        return first(self, offset, wait_seconds)

    def _read(self, run: str) -> RunSeen:
        from nodepool_ocb.store.client import codec

        role, fqdn = self._role, self._fqdn
        wanted = [paths.noderole(role, fqdn), paths.claim(fqdn), paths.run(role, fqdn, run)]
        noderole, claim, record = self._opened.get_many(wanted)
        return RunSeen(
            run,
            codec.decode(NodeRole, noderole) if noderole else None,
            codec.decode(Claim, claim) if claim else None,
            codec.decode(Run, record) if record else None,
        )

    # -- where it is --

    def _places(self, annealers: Mapping[str, Daemon]) -> LogPlaces:
        host = self._host(annealers)
        asked = daemonlogs.addresses(self.seen.annealer, host, annealers)
        there = {address: self._in(daemon.host, daemon.log_dir) for address, daemon in asked.items()}
        here = self._here(host, annealers) if self._files else ()
        file = next((each for each in here if logs.readable(_path(each))), None)
        return LogPlaces(self._name, there, file, _unreached(host, annealers))

    def _host(self, annealers: Mapping[str, Daemon]) -> str:
        """Of the annealer that has it, or had it last."""
        daemon, record = annealers.get(self.seen.annealer), self.seen.record
        if daemon is not None:
            return daemon.host
        return record.log.partition(":")[0] if record and record.log else host_of(self.seen.annealer)

    def _here(self, host: str, annealers: Mapping[str, Daemon]) -> Iterator[str]:
        """The file on this host, HOST:FILE, as the record, an annealer, or our configuration names it."""
        if not daemonlogs.on_this_host(host):
            return
        if self.seen.record and self.seen.record.log:
            yield self.seen.record.log
        for folder in [daemon.log_dir for daemon in annealers.values() if daemon.host == host]:
            yield self._in(host, folder)
        yield self._in(host, self._log_dir)

    def _in(self, host: str, folder: str | None) -> str:
        return f"{host}:{logs.file_of(folder, self._name)}" if folder else ""


def _path(file: str) -> str:
    return file.partition(":")[2]


def _unreached(host: str, annealers: Mapping[str, Daemon]) -> str:
    there = [daemon for daemon in annealers.values() if daemon.host == host]
    if not there:
        return f"no annealer runs on {host or 'any host'} now that could be asked"
    listening = ", ".join(sorted(daemon.pages for daemon in there if daemon.pages))
    if not listening:
        return f"the annealer on {host} serves no pages: set http.listen there"
    return f"the annealer on {host} serves its pages to that host alone, on {listening}: set http.listen to an address of it"


# -- giving it out --


def give(log: AnyRunLog, out: Callable[[bytes], None], note: Callable[[str], None], follow: bool) -> str:
    """Give the log out, with ``follow`` until it ends; gives a sentence about its end and its place."""
    joined = False
    given = Follower(log, out, note, log.ask).give(follow)
    record = log.seen.record
    if not given.whole and record is not None and record.tail:
        more = rest(given, record.tail)
        joined = more is not None and given.offset > 0
        out(record.tail.encode() if more is None else more)
    return _about(log, given, joined)


def document(log: AnyRunLog, note: Callable[[str], None]) -> tuple[RunOutput, str]:
    """The last MiB of the log as a document, and the sentence about it."""
    parts: list[bytes] = []
    given = Follower(log, parts.append, note, log.ask, -daemonlogs.MOST_BYTES).give(follow=False)
    record = log.seen.record
    tail = (record.tail if record else None) or ""
    made = RunOutput(
        noderole=log.noderole,
        run=log.seen.run,
        record=record or msgspec.UNSET,
        log=given.file or (record.log if record else None),
        whole=given.whole or silent(log, given),
        output=b"".join(parts).decode(errors="replace") if given.whole else tail,
    )
    return made, _about(log, given)


def place(log: AnyRunLog, note: Callable[[str], None]) -> str:
    """HOST:FILE of the log as it was found, else as the record has it; a note if it was not found. Raises NotFound."""
    given = Follower(log, lambda _: None, note, log.ask, -1).give(follow=False)
    record = log.seen.record
    file = given.file or (record.log if record else None)
    if silent(log, given):
        raise NotFound(f"run {log.seen.run} of {log.noderole} has no log, since jig {log.jig} wrote no output")
    if not file:
        raise NotFound(
            f"the place of the output of run {log.seen.run} is unknown: {given.reason}; see: nodepool-ocb daemon list"
        )
    if not given.whole:
        note(f"warning: no annealer could be asked for it: {given.reason}")
    return file


def silent(log: AnyRunLog, given: LogDelivery) -> bool:
    """Whether it has ended without any output. A record has the end of the output, or no exit code: it was cancelled."""
    record = log.seen.record
    if record is None or record.exit_code is None or record.outcome not in RESULTS or not log.seen.ended:
        return False
    return not (record.log or record.tail or given.offset > 0)


def _about(log: AnyRunLog, given: LogDelivery, joined: bool = False) -> str:
    """Its end, its place, and the part that was given out; ``joined``: all, the rest of it from the record."""
    record = log.seen.record
    file = given.file or (record.log if record else None)
    if given.whole:
        where = f"from {given.place}" + (f"; whole output in {file}" if file else "")
    elif silent(log, given):
        where = f"this run has no log, since jig {log.jig} wrote no output"
    elif given.reason == NOTHING_YET:
        where = NOTHING_YET
    else:
        read = f"read up to byte {given.offset}; " if given.offset > 0 else ""
        end = "the rest" if joined else "the end"
        end = f"{end}, as recorded" if record and record.tail else "no output is kept"
        where = f"{read}{given.reason}; {end}{f'; whole output in {file}' if file else ''}"
    return f"{log.noderole}, run {log.seen.run}: {ended(record) if record else 'still running'}; {where}"


def begun(performer: Performer, opened: Session, name: str) -> None:
    """Return when a noderole runs, or does not wait to run any more; raises NotFound."""
    from nodepool_ocb.store.client import codec

    vertex = noderole_of(performer.load(opened), name)
    woken, said = threading.Event(), False
    path = paths.noderole(vertex.role, vertex.node.name)
    opened.watch(path, lambda *_: woken.set())
    while True:
        woken.clear()  # before it is read: a change during the read must wake us again
        try:
            znode = opened.get(path)
        except Unavailable:
            woken.wait(LOOK_SECONDS)
            continue
        if znode is None:
            raise NotFound(f"{vertex.name} was deleted before it ran; see: nodepool-ocb history {vertex.name}")
        record = codec.decode(NodeRole, znode)
        if not waits(record):
            return
        if not said:
            say_waits(performer, vertex.name, record)
            said = True
        woken.wait(LOOK_SECONDS)


def say_waits(performer: AnyPerformer, name: str, record: NodeRole) -> None:
    """Notes for the person that watches a noderole which has not begun to run."""
    performer.caller.note(f"{name} waits ({record.state}): its output comes when it runs")
    performer.caller.note(f"why it waits: nodepool-ocb noderole explain {name}")


def waits(record: NodeRole) -> bool:
    """Whether it will run without another command."""
    return record.state in (State.TODO, State.BLOCKED) or (record.state is State.ACTIVE and record.refresh)
