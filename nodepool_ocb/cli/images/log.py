"""``image log``: the output of a build."""

from __future__ import annotations

import click

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import direct
from nodepool_ocb.operations.images.logs import ImageLog


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
    used = direct()
    with used.session() as opened:
        found = buildlogs.LogOfBuild(opened, used.perform(ImageLog(image=name, build=id), opened).answer)
        if output.chosen() != "table":
            document = buildlogs.document(found, output.say)
            output.text(document, document.output)
        else:
            with logs.printer(raw) as out:
                buildlogs.give(found, out, output.say, follow)
