"""The log of a run, wherever it is: at its annealer's page, in a file of this host, or its end in the record.

A run that another annealer takes over goes on in that one's log, under another name and with the same bytes: the machine
keeps the output, and each annealer has it from its first byte on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli import logs as kit
from nodepool_ocb.cli.kit import session
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.http import logs
from nodepool_ocb.http.following import Places
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Daemon, NodeRole, Run, State

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class Seen(msgspec.Struct, frozen=True):
    """What ZooKeeper says of a run."""

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
        """Who has it, or had it last."""
        if self.claim is not None and self.claim.run == self.run:
            return self.claim.annealer
        return self.record.annealer if self.record else (self.noderole and self.noderole.by) or ""


def succeeding(seen: Seen) -> str | None:
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


class Source:
    """Where a run's log is to be had; ``look`` finds out again."""

    regrows = True

    def __init__(self, opened: Session, vertex: Vertex, run: str) -> None:
        self._opened = opened
        self._role, self._fqdn = vertex.role, vertex.node.name
        role = vertex.node.world.roles.get(vertex.role)
        self.jig = role.record.jig if role is not None else "(unknown)"
        self.seen = Seen(run, vertex.record)
        self.places = Places(self._name)
        self.look()

    @property
    def _name(self) -> str:
        return logs.of_run(self._role, self._fqdn, self.seen.run)

    @property
    def ended(self) -> bool:
        """As far as was seen."""
        return self.seen.ended

    def look(self) -> bool:
        """See what is true now, of the run that took it over where one has; False while ZooKeeper is away."""
        try:
            seen = self._read(self.seen.run)
            while (following := succeeding(seen)) is not None:
                seen = self._read(following)
            annealers = kit.daemons(self._opened, "annealer")
        except Unavailable:
            return False
        self.seen = seen
        self.places = self._places(annealers)
        return True

    def _read(self, run: str) -> Seen:
        from nodepool_ocb.store.client import codec

        role, fqdn = self._role, self._fqdn
        wanted = [paths.noderole(role, fqdn), paths.claim(fqdn), paths.run(role, fqdn, run)]
        noderole, claim, record = self._opened.get_many(wanted)
        return Seen(
            run,
            codec.decode(NodeRole, noderole) if noderole else None,
            codec.decode(Claim, claim) if claim else None,
            codec.decode(Run, record) if record else None,
        )

    # -- where it is --

    def _places(self, annealers: Mapping[str, Daemon]) -> Places:
        host = self._host(annealers)
        asked = kit.addresses(self.seen.annealer, host, annealers)
        there = {address: self._in(daemon.host, daemon.log_dir) for address, daemon in asked.items()}
        file = next((each for each in self._here(host, annealers) if logs.readable(_path(each))), None)
        return Places(self._name, there, file, _unreached(host, annealers))

    def _host(self, annealers: Mapping[str, Daemon]) -> str:
        """Of the annealer that has it, or had it last."""
        daemon, record = annealers.get(self.seen.annealer), self.seen.record
        if daemon is not None:
            return daemon.host
        return record.log.partition(":")[0] if record and record.log else host_of(self.seen.annealer)

    def _here(self, host: str, annealers: Mapping[str, Daemon]) -> Iterator[str]:
        """The file on this host, HOST:FILE, as the record, an annealer, or our configuration names it."""
        if not session.on_this_host(host):
            return
        if self.seen.record and self.seen.record.log:
            yield self.seen.record.log
        for folder in [daemon.log_dir for daemon in annealers.values() if daemon.host == host]:
            yield self._in(host, folder)
        yield self._in(host, session.settings().annealer.log_dir)

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
