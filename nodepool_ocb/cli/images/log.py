"""``image log``: what a build printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import NotFound
from nodepool_ocb.views.images import BuildLog

if TYPE_CHECKING:
    from nodepool_ocb.cli.images.buildlog import Printed, Source

MOST_BYTES: Final = 1 << 20  # of a log in JSON or YAML


@click.command(cls=Verb)
@click.argument("name", metavar="IMAGE", shell_complete=completion.images)
@click.argument("id", metavar="[BUILD]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the build ends.")
def log(name: str, id: str | None, follow: bool) -> None:
    """The log of an image's newest build, or of the one that is named, from whichever builder has it.

    Where the builder cannot be reached: the file, if it is on this host; else the end that is in the record. With -o json
    or yaml, the last MiB.
    """
    text = output.chosen() == "table"
    if follow and not text:
        raise click.UsageError("-f gives text as it comes; leave -o away")
    parts: list[bytes] = []
    printer = terminal.Printer()
    source, printed = _printed(name, id, printer.take if text else parts.append, follow, 0 if text else -MOST_BYTES)
    record = source.build.record
    tail = None if printed.whole else record.tail or ""
    output.say(f"{record.filename}: {source.state}; {_whence(source, printed)}")
    if text:
        printer.take((tail or "").encode())
        printer.close()
        return
    whole = b"".join(parts).decode(errors="replace") if tail is None else tail
    document = BuildLog(
        image=name, build=source.build.id, state=source.state, log=record.log, whole=printed.whole, output=whole
    )
    output.text(document, whole)


def _printed(
    name: str, id: str | None, out: Callable[[bytes], None], follow: bool, start: int
) -> tuple[Source, Printed]:
    from nodepool_ocb.cli.images import buildlog

    with session.session() as opened:
        view = imaging.image_of(imaging.load(opened), name)
        if not view.builds:
            raise NotFound(f"{name} was never built; ask for it: nodepool-ocb image build {name}")
        source = buildlog.Source(opened, name, imaging.build_of(view, id) if id else view.builds[-1])
        return source, buildlog.print_log(source, out, follow=follow, start=start)


def _whence(source: Source, printed: Printed) -> str:
    """Where the log is from, and how much of it that was."""
    record = source.build.record
    if printed.whole:
        return f"from {printed.address}"
    read = f"read up to byte {printed.offset}; " if printed.offset > 0 else ""
    end = "now its end, as recorded" if record.tail else "no end of it is recorded"
    return f"{read}{printed.reason}; {end}{f'; whole log: {record.log}' if record.log else ''}"
