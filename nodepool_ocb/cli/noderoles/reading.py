"""``noderole list`` and ``noderole show``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.sealing import reveal_option
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.noderoles import reading
from nodepool_ocb.operations.noderoles.grid import NoderoleListStates
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderoleShow
from nodepool_ocb.operations.noderoles.timeline import NoderoleListRuns


@click.command("list", cls=Verb, operation=(NoderoleList, NoderoleListStates, NoderoleListRuns))
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, State)], case_sensitive=False))
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--node", "fqdn", shell_complete=completion.nodes)
@click.option("--role", shell_complete=completion.roles)
@click.option(
    "--outdated",
    "only_outdated",
    is_flag=True,
    help="ACTIVE ones with inputs that changed since their newest run, and the changes.",
)
@click.option("--by-node", is_flag=True, help="One line for each node, with a letter for the state of each role.")
@click.option("--runs", is_flag=True, help="With -l: their newest runs, and those that run or wait now.")
@click.option("--watch", is_flag=True, help="One JSON object a line for each, now and whenever it changes.")
@selector_option
def list_(
    states: Sequence[str], deployment: str | None, fqdn: str | None, role: str | None, only_outdated: bool, by_node: bool,
    runs: bool, watch: bool, selector: str | None,
) -> None:  # fmt: skip
    """Noderoles and their states."""
    if runs:
        if by_node or watch or only_outdated or states or fqdn or role or deployment or selector is None:
            raise click.UsageError("--runs goes with -l alone: give -l 'deployment:lab role:ntp'")
        _list_runs(NoderoleListRuns(selector=selector))
        return
    if by_node:
        if watch or only_outdated or states or fqdn or role:
            raise click.UsageError("--by-node goes with --deployment and -l alone: give -l 'state:ERROR role:ntp'")
        _list_by_node(NoderoleListStates(deployment=deployment, selector=selector))
        return
    if watch and (only_outdated or selector is not None):
        raise click.UsageError("--watch goes neither with --outdated nor with -l: attributes are not watched")

    operation = NoderoleList(
        states=tuple(states),
        deployment=deployment,
        node=fqdn,
        role=role,
        selector=selector,
        outdated=only_outdated,
        differences=output.chosen() == "table",
    )
    if watch:
        for row in reading.watched(performer(), operation):
            output.line(row)
        return
    found = perform(operation).answer
    if found.outdated is not None:
        output.things(found.outdated, ("noderole", "deployment", "different", "advice"), key="noderole")
    else:
        output.things(found.rows, ("noderole", "state", "deployment", "since", "reason"), key="noderole")


def _list_runs(operation: NoderoleListRuns) -> None:
    found = perform(operation).answer
    runs = output.table(found.runs, ("noderole", "run", "outcome", "queued", "started", "ended"))
    output.thing(found, "noderoles", runs, output.table(found.present, ("noderole", "state", "since", "reason")))


def _list_by_node(operation: NoderoleListStates) -> None:
    found = perform(operation).answer
    tables = [output.table(found.roles, ("role", "milestone", "noderoles"))]
    output.thing(found, "noderoles", *tables, output.table(found.lines, ("node", "rack", "marks", "states")))


@click.command(cls=Verb, operation=NoderoleShow)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@reveal_option
def show(name: str, reveal: bool) -> None:
    """One noderole: its record, its neighbours, its attributes, and its runs."""
    document = perform(NoderoleShow(noderole=name, reveal=reveal)).answer
    tables = [output.fields(document, document.attributes, but=("attributes", "runs"))]
    if document.runs:
        columns = ("run", "outcome", "generation", "exit_code", "started", "ended", "log")
        tables.append(output.table(document.runs, columns))
    output.thing(document, name, *tables)
