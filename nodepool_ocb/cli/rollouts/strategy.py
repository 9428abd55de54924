"""``rollout check``, ``plan`` and ``select``: strategies looked at, before they are carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
import msgspec

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import deployment_of
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json, Node

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Plan
    from nodepool_ocb.rollout.strategy import Group, Strategy

SHOWN: Final = 20  # overlaps and names in a table; -o json has all

name_option = click.option("--name", help="The strategy of this name, where the file holds several.")
deployment_option = click.option(
    "--deployment", default="system", show_default=True, shell_complete=completion.deployments,
    help="Nodes of this deployment, and of those below it.",
)  # fmt: skip


@click.command(cls=Verb)
@click.argument("file", type=click.Path())
@name_option
def check(file: str, name: str | None) -> None:
    """Say everything that is wrong in a strategy, with file, line and path; ZooKeeper is not asked."""
    from nodepool_ocb.rollout import reading
    from nodepool_ocb.rollout.plan import levels

    found = reading.load(file, name)
    level_of = {each: level for level, row in enumerate(levels(found)) for each in row}
    rows = [{"level": level_of[group.name], **_row(group)} for group in found.groups]
    if output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        columns = ("level", "name", "critical", "depends_on", "success_criteria")
        output.thing(_document(found), found.name, output.table(rows, columns))


def _row(group: Group) -> dict[str, Json]:
    return {
        "name": group.name,
        "critical": group.critical,
        "depends_on": list(group.depends_on),
        "success_criteria": _criteria(group),
    }


def _criteria(group: Group) -> str | None:
    """The criteria in words.

    >>> from nodepool_ocb.rollout.strategy import Criteria, Group
    >>> _criteria(Group(name="a", success_criteria=Criteria(percent_successful_nodes=50, maximum_failed_nodes=0)))
    'at least 50% successful, at most 0 failed'
    """
    wanted = group.success_criteria
    phrases = (
        (wanted.percent_successful_nodes, "at least {}% successful"),
        (wanted.minimum_successful_nodes, "at least {} successful"),
        (wanted.maximum_failed_nodes, "at most {} failed"),
    )
    return ", ".join(words.format(number) for number, words in phrases if number is not None) or None


def _document(strategy: Strategy) -> dict[str, Json]:
    """A strategy with the rules that it leaves to the default, which are part of what it means."""
    plain: dict[str, Json] = {name: msgspec.to_builtins(getattr(strategy, name)) for name in strategy.__struct_fields__}
    return plain


@click.command(cls=Verb)
@click.argument("file", type=click.Path(), required=False)
@deployment_option
@name_option
def plan(file: str | None, deployment: str, name: str | None) -> None:
    """Show which nodes each group of a strategy has, and in which order; nothing is begun.

    Without a file: one critical group of all nodes, which must all succeed. Fails where a group's criteria cannot be met.
    """
    from nodepool_ocb.rollout import plan as planning
    from nodepool_ocb.rollout import reading, strategy
    from nodepool_ocb.rollout import selectors as selecting

    chosen = reading.load(file, name) if file else strategy.WHOLE
    nodes = _nodes(deployment)
    made = planning.plan(chosen, nodes)
    show(chosen, made, {"name": chosen.name, "deployment": deployment, "inventory": selecting.version(nodes)})
    if made.unmet:
        raise Invalid(unmet(made))


def show(strategy: Strategy, made: Plan, about: Mapping[str, Json]) -> None:
    """Print a plan: one document."""
    rows = _rows(strategy, made)
    if output.chosen() == "table":
        output.render(output.table(rows, ("level", "name", "critical", "nodes", "depends_on", "success_criteria")))
        remark(made)
    elif output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        output.thing({**about, **msgspec.to_builtins(made)}, strategy.name)


def unmet(made: Plan) -> list[str]:
    """A sentence for each criterion that cannot be met."""
    return [f"group {group}: {text}" for group, reasons in made.unmet.items() for text in reasons]


def _rows(strategy: Strategy, made: Plan) -> list[dict[str, Json]]:
    """The groups in the order in which they would be carried out, as far as it is known."""
    groups = {group.name: group for group in strategy.groups}
    return [
        {"level": level, **_row(groups[name]), "nodes": len(made.members[name])}
        for level, row in enumerate(made.levels)
        for name in row
    ]


def remark(made: Plan) -> None:
    """What somebody should know, on stderr."""
    for overlap in made.overlaps[:SHOWN]:
        many = f"{overlap.nodes} node" + ("s" if overlap.nodes != 1 else "")
        output.say(f"note: groups {overlap.first} and {overlap.second} have {many} in common; each is sent once")
    if len(made.overlaps) > SHOWN:
        output.say(f"note: {len(made.overlaps) - SHOWN} more pairs of groups have nodes in common; -o json has all")
    for name, nodes in made.members.items():
        if not nodes:
            output.say(f"note: group {name} has no nodes")
    for name, strangers in made.strangers.items():
        output.say(f"note: group {name} names nodes that do not exist: {_some(strangers)}")
    if made.ungrouped:
        output.say(f"note: {len(made.ungrouped)} in no group: {_some(made.ungrouped)}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _nodes(deployment: str) -> Mapping[str, Node]:
    from nodepool_ocb.rollout.selectors import inventory

    world = session.world()
    deployment_of(world, deployment)
    return inventory(world, deployment)


@click.command(cls=Verb)
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...")
@deployment_option
def select(selectors: Sequence[str], deployment: str) -> None:
    """Say which nodes selectors mean: any of them, each written as in a strategy; all nodes without one.

    nodepool-ocb rollout select '{node_tags: [control], rack_names: [rack03]}' '{node_names: [ntp01]}' -o name
    """
    from nodepool_ocb.rollout import reading
    from nodepool_ocb.rollout import selectors as selecting

    problems: list[str] = []
    wanted = []
    for number, text in enumerate(selectors, 1):
        try:
            wanted.append(reading.selector(text, f"selector {number}"))
        except Invalid as wrong:
            problems += wrong.problems
    if problems:
        raise Invalid(problems)
    nodes = _nodes(deployment)
    rows: list[dict[str, Json]] = [
        {
            "name": name,
            "deployment": nodes[name].deployment,
            "rack": nodes[name].rack,
            "tags": list(nodes[name].tags),
            "labels": [f"{key}:{value}" for key, value in sorted(nodes[name].labels.items())],
        }
        for name in selecting.select(wanted, nodes)
    ]
    output.things(rows, ("name", "deployment", "rack", "tags", "labels"))
