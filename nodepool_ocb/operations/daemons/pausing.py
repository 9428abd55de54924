"""``daemon pause`` and ``daemon resume``: the daemons of a kind on a host begin nothing new for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodepool_ocb.engine import maintenance
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, DaemonPause, Delete, Set
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.daemons import EnsureDaemonPauses, ReadDaemonPause, ReadDaemons


class PausedDaemons(msgspec.Struct, frozen=True):
    """The daemons of one kind on one host, and the command that ends their pause."""

    title: str
    resume: str


class DaemonsPaused(Explained, frozen=True, kw_only=True):
    """The answer of a pause."""

    paused: tuple[PausedDaemons, ...] = ()
    until: float | None = None  # seconds since the epoch; None: until a person ends it


class DaemonPauseSet(Operation[DaemonsPaused], frozen=True, kw_only=True):
    """Let all daemons of a kind on a host begin nothing new, also those that start later. Refused if another person did.

    Work that is under way goes on to its end. Rollouts and runs of tasks are handed over.
    """

    noun = "daemon"
    verb = "pause"
    right = Right.OPERATOR
    reads = (ReadDaemons, ReadDaemonPause, EnsureDaemonPauses)
    writes = ("pause of daemons",)

    daemons: tuple[str, ...]  # ids, or KIND@HOST
    reason: str
    until: float | None = None  # seconds since the epoch
    seconds: float | None = None  # from now; not beside ``until``

    def decide(self, situation: Situation) -> Steps[DaemonsPaused]:
        end = situation.end(self.until, self.seconds)
        hosts = yield from _hosts(self.daemons)
        for kind, host in hosts:
            yield from self._pause(situation, kind, host, end)
        paused = (PausedDaemons(maintenance.daemons(*each), maintenance.resuming_daemons(*each)) for each in hosts)
        return DaemonsPaused(paused=tuple(paused), until=end)

    def _pause(self, situation: Situation, kind: str, host: str, end: float | None) -> Steps[None]:
        found = yield from ReadDaemonPause(kind, host)
        before = found.record.pause if found is not None else None
        title, resume = f"{maintenance.daemons(kind, host)} are paused", maintenance.resuming_daemons(kind, host)
        made = maintenance.put(before, title, resume, situation.by, self.reason, situation.now, end)
        path = paths.daemon_pause(kind, host)
        if found is None:
            yield from EnsureDaemonPauses(kind)
            yield [Create(path, DaemonPause(pause=made))]
        elif made is not before:
            yield [Set(path, DaemonPause(pause=made), found.version)]


class DaemonResume(Operation[Explained], frozen=True, kw_only=True):
    """End the pause of daemons."""

    noun = "daemon"
    verb = "resume"
    right = Right.OPERATOR
    reads = (ReadDaemons, ReadDaemonPause)
    writes = ("pause of daemons",)

    daemons: tuple[str, ...]  # ids, or KIND@HOST

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        hosts = yield from _hosts(self.daemons)
        for kind, host in hosts:
            if (found := (yield from ReadDaemonPause(kind, host))) is not None:
                yield [Delete(paths.daemon_pause(kind, host), found.version)]
        return Explained()


def _hosts(names: Sequence[str]) -> Steps[list[tuple[str, str]]]:
    """The kind and the host of each name; raises NotFound for the id of a daemon that is not running, and Invalid."""
    found = yield from ReadDaemons()
    running = {
        identity: (kind, record.host)
        for kind, daemons in found.by_kind.items()
        for identity, record in daemons.items()
        if record is not None
    }
    return list(dict.fromkeys(_host(name, running) for name in names))


def _host(name: str, running: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    kind, at, host = name.partition("@")
    if name in running:
        kind, host = running[name]
    elif not (at and host and "/" not in host and kind in paths.DAEMON_KINDS):
        raise unknown("daemon", name, running)
    if kind not in paths.PAUSABLE_KINDS:
        raise Invalid(f"a server of the API has no pause; stop it on {host}: systemctl stop nodepool-ocb-{kind}")
    return kind, host
