"""``image log``: what a build printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.logs import MOST_BYTES
from nodepool_ocb.views.images import BuildLog

if TYPE_CHECKING:
    from nodepool_ocb.cli.images.buildlog import Source
    from nodepool_ocb.http.following import LogDelivery


@click.command(cls=Verb)
@click.argument("name", metavar="IMAGE", shell_complete=completion.images)
@click.argument("id", metavar="[BUILD]", required=False, shell_complete=completion.builds)
@logs.follow_option
@logs.raw_option
def log(name: str, id: str | None, follow: bool, raw: bool) -> None:
    """The log of an image's newest build, or of the one that is named, from whichever builder has it.

    Where the builder cannot be reached: the file, if it is on this host; else the end that is in the record. With -o json
    or yaml, the last MiB.
    """
    logs.refuse(follow=follow, raw=raw)
    if output.chosen() != "table":
        parts: list[bytes] = []
        source, given = _given(name, id, parts.append, False, -MOST_BYTES)
        _show(source, given, b"".join(parts))
        return
    with logs.printer(raw) as out:
        source, given = _given(name, id, out, follow)
        record = source.build.record
        output.say(f"{record.filename}: {source.state}; {_whence(source, given)}")
        if not given.whole:
            out((record.tail or "").encode())


def _given(name: str, id: str | None, out: logs.Out, follow: bool, start: int = 0) -> tuple[Source, LogDelivery]:
    from nodepool_ocb.cli.images import buildlog
    from nodepool_ocb.http.following import Follower

    with session.session() as opened:
        view = imaging.image_of(imaging.load(opened), name)
        if not view.builds:
            raise NotFound(f"{name} was never built; ask for it: nodepool-ocb image build {name}")
        source = buildlog.Source(opened, name, imaging.build_of(view, id) if id else view.builds[-1])
        return source, Follower(source, out, output.say, start).give(follow)


def _show(source: Source, given: LogDelivery, log: bytes) -> None:
    record = source.build.record
    output.say(f"{record.filename}: {source.state}; {_whence(source, given)}")
    whole = log.decode(errors="replace") if given.whole else record.tail or ""
    document = BuildLog(
        image=source.image,
        build=source.build.id,
        state=source.state,
        log=record.log,
        whole=given.whole,
        output=whole,
    )
    output.text(document, whole)


def _whence(source: Source, given: LogDelivery) -> str:
    """Where the log is from, and how much of it that was."""
    record = source.build.record
    if given.whole:
        return f"from {given.place}"
    read = f"read up to byte {given.offset}; " if given.offset > 0 else ""
    end = "now its end, as recorded" if record.tail else "no end of it is recorded"
    return f"{read}{given.reason}; {end}{f'; whole log: {record.log}' if record.log else ''}"
