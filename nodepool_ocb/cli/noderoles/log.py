"""``noderole log``: what its runs print, from whichever annealer has it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
import msgspec

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.noderoles import runs
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import NotFound, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.operations.names import noderole_of
from nodepool_ocb.views.noderoles import RunOutput, ended

if TYPE_CHECKING:
    from nodepool_ocb.cli.noderoles.runlog import Source
    from nodepool_ocb.http.following import Given
    from nodepool_ocb.store.client.session import Session

LOOK_SECONDS: Final = 5.0  # watches are hints


@click.command(cls=Verb)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@click.argument("run", metavar="[RUN]", required=False, shell_complete=completion.runs)
@logs.follow_option
@logs.raw_option
@click.option("--path", is_flag=True, help="Only where the whole is: HOST:FILE.")
def log(name: str, run: str | None, follow: bool, raw: bool, path: bool) -> None:
    """The output of a noderole's newest run, or of the one that is named, from whichever annealer has it.

    Where no annealer can be asked: the file, if it is on this host; else the end that is in the record. With -f, of a
    noderole that waits: what it prints when it runs. With -o json or yaml, the last MiB.
    """
    logs.refuse(follow=follow, raw=raw)
    if path and (follow or raw):
        raise click.UsageError("--path says where the output is and gives none of it; leave -f and --raw away")
    with session.session() as opened:
        vertex = noderole_of(session.load(opened), name)
        if path:
            _say_path(_source(opened, vertex, run))
        elif output.chosen() != "table":
            _document(name, _source(opened, vertex, run))
        else:
            with _interrupted(name, follow):
                if follow and run is None:
                    vertex = _begun(opened, vertex)
                _print(name, _source(opened, vertex, run), follow, raw)


def _source(opened: Session, vertex: Vertex, run: str | None) -> Source:
    """Of the run that was asked for, that is going on, or that was the newest; raises NotFound."""
    from nodepool_ocb.cli.noderoles.runlog import Source

    known = [name for name, _ in runs.recorded(opened, vertex)]
    running = vertex.record.run if vertex.record.state is State.TRANSITION else None
    wanted = run or running or next(reversed(known), None)
    if wanted is None:
        raise NotFound(f"{vertex.name} has not run yet; nodepool-ocb noderole explain {vertex.name}")
    if wanted not in known and wanted != running:
        raise NotFound(f"{vertex.name} has no run {run}; it has: {', '.join(known) or 'none'}")
    return Source(opened, vertex, wanted)


def _begun(opened: Session, vertex: Vertex) -> Vertex:
    """The noderole when it runs, or does not wait to run any more."""
    from nodepool_ocb.store.client import codec

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
            raise NotFound(f"{vertex.name} was deleted before it ran")
        record = codec.decode(NodeRole, znode)
        vertex.record = record
        if not _waits(record):
            return vertex
        if not said:
            output.say(f"{vertex.name} waits ({record.state}): its output comes when it runs")
            output.say(f"why it waits: nodepool-ocb noderole explain {vertex.name}")
            said = True
        woken.wait(LOOK_SECONDS)


def _waits(record: NodeRole) -> bool:
    return record.state in (State.TODO, State.BLOCKED) or (record.state is State.ACTIVE and record.refresh)


@contextmanager
def _interrupted(name: str, follow: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if follow:
            output.say(f"{name} goes on; nodepool-ocb noderole cancel {name} would end what runs")
        raise


# -- what is printed --


def _print(name: str, source: Source, follow: bool, raw: bool) -> None:
    from nodepool_ocb.http.following import Follower, rest

    joined = False
    with logs.printer(raw) as out:
        given = Follower(source, out, output.say).give(follow)
        record = source.seen.record
        if not given.whole and record is not None and record.tail:
            more = rest(given, record.tail)
            joined = more is not None and given.offset > 0
            out(record.tail.encode() if more is None else more)
    output.say(_about(name, source, given, joined))


def _about(name: str, source: Source, given: Given, joined: bool = False) -> str:
    """How it ended, where it is, and how much of it was shown; ``joined``: all, the rest of it from the record."""
    record = source.seen.record
    file = given.file or (record.log if record else None)
    if given.whole:
        where = f"from {given.place}" + (f"; whole output in {file}" if file else "")
    elif record is not None and source.seen.ended and not (record.log or record.tail or given.offset > 0):
        where = f"this run has no log: jig {source.jig} wrote none, or annealer.log_dir was not set"
    else:
        read = f"read up to byte {given.offset}; " if given.offset > 0 else ""
        end = "the rest" if joined else "the end"
        end = f"{end}, as recorded" if record and record.tail else "no output is kept"
        where = f"{read}{given.reason}; {end}{f'; whole output in {file}' if file else ''}"
    return f"{name}, run {source.seen.run}: {ended(record) if record else 'still running'}; {where}"


def _document(name: str, source: Source) -> None:
    from nodepool_ocb.http.following import Follower

    parts: list[bytes] = []
    given = Follower(source, parts.append, output.say, -logs.MOST_BYTES).give(follow=False)
    record = source.seen.record
    tail = (record.tail if record else None) or ""
    output.say(_about(name, source, given))
    document = RunOutput(
        noderole=name,
        run=source.seen.run,
        record=record or msgspec.UNSET,
        log=given.file or (record.log if record else None),
        whole=given.whole,
        output=b"".join(parts).decode(errors="replace") if given.whole else tail,
    )
    output.text(document, document.output)


def _say_path(source: Source) -> None:
    """Where the file is that was found to be there; else what the record says. Raises NotFound."""
    from nodepool_ocb.http.following import Follower

    given = Follower(source, lambda _: None, output.say, -1).give(follow=False)
    record = source.seen.record
    file = given.file or (record.log if record else None)
    if not file:
        raise NotFound(f"nobody knows where the output of run {source.seen.run} is: {given.reason}")
    if not given.whole:
        output.say(f"warning: nobody could be asked whether it is there: {given.reason}")
    terminal.text(file)
