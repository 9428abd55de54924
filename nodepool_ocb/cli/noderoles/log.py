"""``noderole log``: the output of its runs, from the annealer that has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.kit import completion, output, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import distant_server, perform, performer
from nodepool_ocb.operations.noderoles.logs import NoderoleLog
from nodepool_ocb.operations.performer import Performer

if TYPE_CHECKING:
    from nodepool_ocb.operations.runlogs import AnyRunLog


@click.command(cls=Verb, operation=NoderoleLog)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@click.argument("run", metavar="[RUN]", required=False, shell_complete=completion.runs)
@logs.follow_option
@logs.raw_option
@click.option("--path", is_flag=True, help="Only where the whole is: HOST:FILE.")
def log(name: str, run: str | None, follow: bool, raw: bool, path: bool) -> None:
    """The output of a noderole's newest run, or of the named run, from the annealer that has it.

    If no annealer can be asked: the file, if it is on this host; else the end that is in the record. With -f, if the noderole
    waits: the output of its next run. With -o json or yaml, the last MiB.
    """
    from nodepool_ocb.operations import runlogs  # here, since http takes long to import

    logs.refuse(follow=follow, raw=raw)
    if path and (follow or raw):
        raise click.UsageError("--path says where the output is and gives none of it; leave -f and --raw away")
    with _interrupted(name, follow), _source(name, run, follow) as source:
        if path:
            terminal.text(runlogs.place(source, output.say))
        elif output.chosen() != "table":
            document, about = runlogs.document(source, output.say)
            output.say(about)
            output.text(document, document.output)
        else:
            with logs.printer(raw) as out:
                about = runlogs.give(source, out, output.say, follow)
            output.say(about)


@contextmanager
def _source(name: str, run: str | None, follow: bool) -> Iterator[AnyRunLog]:
    """The log, when it has begun; from its daemons or from the server of ``--api``."""
    from nodepool_ocb.operations import runlogs

    used, operation = performer(), NoderoleLog(noderole=name, run=run)
    if isinstance(used, Performer):
        with used.session() as opened:
            if follow and run is None:
                runlogs.begun(used, opened, name)
            yield runlogs.RunLog(opened, used.perform(operation, opened).answer, used.settings().annealer.log_dir)
        return
    from nodepool_ocb.remote import logs as distant

    server = distant_server(used)
    if follow and run is None:
        distant.begun(server, name)
    yield distant.DistantRunLog(server, perform(operation).answer)


@contextmanager
def _interrupted(name: str, follow: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if follow:
            output.say(f"{name} goes on; to end the run: nodepool-ocb noderole cancel {name}")
        raise
