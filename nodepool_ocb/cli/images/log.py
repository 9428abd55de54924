"""``image log``: the output of a build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import distant_server, perform, performer
from nodepool_ocb.operations.images.logs import ImageLog
from nodepool_ocb.operations.performer import Performer

if TYPE_CHECKING:
    from nodepool_ocb.operations.buildlogs import AnyBuildLog


@click.command(cls=Verb, operation=ImageLog)
@click.argument("name", metavar="IMAGE", shell_complete=completion.images)
@click.argument("id", metavar="[BUILD]", required=False, shell_complete=completion.builds)
@logs.follow_option
@logs.raw_option
def log(name: str, id: str | None, follow: bool, raw: bool) -> None:
    """The log of an image's newest build, or of the one that is named, from whichever builder has it.

    Where the builder cannot be reached: the file, if it is on this host; else the end that is in the record. With -o json
    or yaml, the last MiB.
    """
    from nodepool_ocb.operations import buildlogs

    logs.refuse(follow=follow, raw=raw)
    with _source(name, id) as found:
        if output.chosen() != "table":
            document = buildlogs.document(found, output.say)
            output.text(document, document.output)
        else:
            with logs.printer(raw) as out:
                buildlogs.give(found, out, output.say, follow)


@contextmanager
def _source(name: str, id: str | None) -> Iterator[AnyBuildLog]:
    """The log, from its builder or from the server of ``--api``."""
    used, operation = performer(), ImageLog(image=name, build=id)
    if isinstance(used, Performer):
        from nodepool_ocb.operations.buildlogs import LogOfBuild

        with used.session() as opened:
            yield LogOfBuild(opened, used.perform(operation, opened).answer)
        return
    from nodepool_ocb.remote import logs as distant

    yield distant.DistantBuildLog(distant_server(used), perform(operation).answer)
